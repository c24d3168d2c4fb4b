"""The shipped ways between levels: max-pool or strided convolution down; transposed, or enlarging and plain convolution up."""

import keras
from keras import ops

from unetkit.blocks import packed
from unetkit.blocks.base import Downsample, Upsample
from unetkit.blocks.packed import Packed
from unetkit.blocks.packed_pool import max_pool
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
        return max_pool(x, self.out_block)

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


@keras.saving.register_keras_serializable("unetkit")
class BilinearConv(Upsample):
    """Bilinear enlargement, a convolution, then the activation. Arguments as `Upsample`.

    Against checkerboards (Odena et al. 2016, "Deconvolution and Checkerboard Artifacts"): every pixel is made from the same
    sum of weights, and neighbours are blended before the convolution. A pixel is 3/4 of the one it lies in and 1/4 of the
    nearer neighbour, per axis; the rim repeats.
    """

    def __init__(self, channels: int, kernel_size: int = 3, **settings):
        super().__init__(channels, kernel_size, **settings)
        self.conv = self.of_rank.conv(self.channels, self.kernel_size, padding="same", name="conv", dtype=self.dtype_policy)

    def resize(self, x):
        for axis in range(1, self.rank + 1):
            x = double_bilinearly(x, axis)
        return self.conv(x)


def double_bilinearly(x, axis: int):
    """Twice as many pixels along one axis, half-pixel centres: (..., n, ...) -> (..., 2n, ...)."""
    n = x.shape[axis]
    before = [slice(None)] * axis
    first, last = x[(*before, slice(0, 1))], x[(*before, slice(n - 1, n))]
    left = ops.concatenate([first, x[(*before, slice(0, n - 1))]], axis=axis)
    right = ops.concatenate([x[(*before, slice(1, n))], last], axis=axis)
    both = ops.stack([0.25 * left + 0.75 * x, 0.75 * x + 0.25 * right], axis=axis + 1)
    return ops.reshape(both, (-1, *x.shape[1:axis], 2 * n, *x.shape[axis + 1 :]))
