"""The shipped ways between levels: max-pool or strided convolution down, transposed or nearest-and-plain convolution up."""

import keras

from unetkit.blocks import packed
from unetkit.blocks.base import Downsample, Upsample
from unetkit.blocks.packed import Packed
from unetkit.errors import UserError


@keras.saving.register_keras_serializable("unetkit")
class MaxPool(Downsample):
    """2x2 max-pool: (b, h, w, c) -> (b, h/2, w/2, c)."""

    def __init__(self, channels: int, **settings):
        super().__init__(channels, **settings)
        self.pool = self.of_rank.max_pool(2, name="pool", dtype=self.dtype_policy)

    def shrink(self, x):
        return self.pool(x)

    def shrink_packed(self, x: Packed) -> Packed:
        return packed.max_pool(x)

    def out_parts(self, parts: tuple[int, ...], channels: int) -> tuple[int, ...]:
        return parts


@keras.saving.register_keras_serializable("unetkit")
class StridedConv(Downsample):
    """3x3 convolution with stride 2, linear: (b, h, w, c) -> (b, h/2, w/2, channels)."""

    def __init__(self, channels: int, **settings):
        super().__init__(channels, **settings)
        self.conv = self.of_rank.conv(self.channels, 3, strides=2, padding="same", name="conv", dtype=self.dtype_policy)

    def shrink(self, x):
        return self.conv(x)

    def shrink_packed(self, x: Packed) -> Packed:
        return packed.strided_convolve(self.conv, x)


@keras.saving.register_keras_serializable("unetkit")
class TransposedConv(Upsample):
    """Transposed convolution with stride 2, then the activation. Arguments as `Upsample`; the kernel is 2 or more, to reach every pixel."""

    def __init__(self, channels: int, kernel_size: int = 3, **settings):
        super().__init__(channels, kernel_size, **settings)
        if self.kernel_size < 2:
            raise UserError(f"TransposedConv: kernel_size={kernel_size} leaves three of four pixels without input; 2 or more reaches all.")
        self.conv = self.of_rank.transposed_conv(
            self.channels, self.kernel_size, strides=2, padding="same", name="conv", dtype=self.dtype_policy
        )

    def resize(self, x):
        return self.conv(x)

    def resize_packed(self, x: Packed) -> Packed:
        return packed.transposed_convolve(self.conv, x, self.out_block, self.activate_packed)


@keras.saving.register_keras_serializable("unetkit")
class NearestConv(Upsample):
    """Each pixel repeated 2x2, a convolution, then the activation. Arguments as `Upsample`."""

    def __init__(self, channels: int, kernel_size: int = 3, **settings):
        super().__init__(channels, kernel_size, **settings)
        self.repeat = self.of_rank.repeat(2, name="repeat", dtype=self.dtype_policy)
        self.conv = self.of_rank.conv(self.channels, self.kernel_size, padding="same", name="conv", dtype=self.dtype_policy)

    def resize(self, x):
        return self.conv(self.repeat(x))

    def resize_packed(self, x: Packed) -> Packed:
        return packed.nearest_convolve(self.conv, x, self.out_block, self.activate_packed)
