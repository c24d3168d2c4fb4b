"""The last layer."""

import keras
from keras import ops

from unetkit.blocks import checks, packed
from unetkit.blocks.base import PackableLayer
from unetkit.blocks.packed import Packed
from unetkit.blocks.rank import check_rank
from unetkit.errors import UserError

ACTIVATIONS = ("tanh", "linear")


@keras.saving.register_keras_serializable("unetkit")
class Head(PackableLayer):
    """1x1 convolution and output activation, both in float32 under every precision policy.

    Between 0.5 and 1 a bfloat16 number moves in steps of 2^-8, half a step of an 8-bit image, so a 16-bit head would show.

    Args:
        channels: channels of the output.
        activation: tanh, or linear.
        rank: spatial axes: 2 for images, 1 for signals (b, w, c).
        zero_init: whether its kernel starts at zero, and so the network's output.
        layout: how the input is packed (None: it is an image); the output is packed in the same block.

    Call arguments:
        x: (b, h, w, c)

    Returns:
        (b, h, w, channels), float32
    """

    def __init__(self, channels: int, activation: str = "tanh", rank: int = 2, zero_init: bool = False, dtype="float32", **kwargs):
        super().__init__(dtype=dtype, **kwargs)
        if self.compute_dtype != "float32":
            raise UserError(f"Head: dtype={dtype!r}: the head computes in float32 whatever the policy of the rest; leave dtype out.")
        self.channels = checks.count("Head", "channels", channels)
        self.activation = checks.choice("Head", "activation", activation, ACTIVATIONS)
        self.rank = check_rank("Head", rank)
        self.zero_init = zero_init
        kernel = "zeros" if zero_init else "glorot_uniform"
        settings = {"activation": self.activation, "kernel_initializer": kernel, "dtype": self.dtype_policy}
        self.conv = self.of_rank.conv(self.channels, 1, name="conv", **settings)

    packed_method = "on_packed"

    def on_image(self, x, training):
        return self.conv(x)

    def on_packed(self, x: Packed, training) -> Packed:
        x = packed.convolve(self.conv, Packed(ops.cast(x.array, "float32"), x.layout))
        return packed.activate(self.conv.activation, self.activation, x)

    def get_config(self):
        return super().get_config() | {
            "channels": self.channels,
            "activation": self.activation,
            "rank": self.rank,
            "zero_init": self.zero_init,
        }
