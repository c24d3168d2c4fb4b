"""The block of the original U-Net, with a choice of norm, activation and residual."""

import keras

from unetkit.blocks import packed
from unetkit.blocks.base import Block
from unetkit.blocks.norm import centres_each_channel
from unetkit.blocks.packed import Packed
from unetkit.blocks.packing import best_shift


@keras.saving.register_keras_serializable("unetkit")
class ConvBlock(Block):
    """Two convolutions, each with norm and activation; dropout between them. Arguments as `Block`.

    ```python
    block = ConvBlock(32, norm="instance", residual="add")
    y = block(keras.ops.ones((1, 16, 16, 3)))  # (1, 16, 16, 32)
    ```
    """

    def __init__(self, channels: int, **settings):
        super().__init__(channels, **settings)
        # A bias that the next norm takes away again would only drift with the rounding of its zero gradient.
        use_bias = not (self.norm_first and centres_each_channel(self.norm, self.groups, self.channels))
        conv = {"padding": "same", "use_bias": use_bias, "dtype": self.dtype_policy}
        self.conv1 = self.of_rank.conv(self.channels, self.kernel_size, name="conv1", **conv)
        self.norm1 = self.make_norm("norm1")
        self.drop = self.make_dropout("drop")
        self.conv2 = self.of_rank.conv(self.channels, self.kernel_size, name="conv2", **conv)
        self.norm2 = self.make_norm("norm2")

    def transform(self, x, training):
        x = self.finish(self.conv1(x), self.norm1)
        x = self.drop(x, training=training)
        return self.finish(self.conv2(x), self.norm2)

    def transform_packed(self, x: Packed, training) -> Packed:
        x = packed.convolve(self.conv1, x, shift=best_shift(x.layout.block, self.conv1.kernel_size))
        x = packed.drop(self.drop, self.finish_packed(x, self.norm1, training), training)
        return self.finish_packed(packed.convolve(self.conv2, x), self.norm2, training)
