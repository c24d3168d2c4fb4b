"""Self-attention over the pixels of one level."""

import math

import keras
from keras import ops

from unetkit.blocks import checks
from unetkit.blocks.base import TracedLayer
from unetkit.blocks.norm import NAMES as NORMS
from unetkit.blocks.norm import make_norm


@keras.saving.register_keras_serializable("unetkit")
class SelfAttention(TracedLayer):
    """x + projection of multi-head attention (Vaswani et al. 2017, eq. 1) over the normed pixels of x; the softmax is float32.

    Its memory grows with the square of the pixels: 16x16 makes a 256 x 256 table per head, 64x64 one of 4096 x 4096.

    Args:
        heads: attention heads; must divide the channels.
        norm: none, batch, group, instance or layer: norm of what is attended to.
        groups: channel groups of group norm.

    Call arguments:
        x: (b, h, w, c)

    Returns:
        (b, h, w, c)
    """

    def __init__(self, heads: int = 4, norm: str = "group", groups: int = 8, **kwargs):
        super().__init__(**kwargs)
        self.heads = checks.count("SelfAttention", "heads", heads)
        self.norm = checks.choice("SelfAttention", "norm", norm, NORMS)
        self.groups = checks.count("SelfAttention", "groups", groups)
        self.input_norm = make_norm(self.norm, self.groups, name="norm", dtype=self.dtype_policy)

    def build(self, input_shape):
        channels = input_shape[-1]
        checks.divisor("SelfAttention", "heads", self.heads, channels, of="channels")
        self.query_key_value = keras.layers.Dense(3 * channels, name="query_key_value", dtype=self.dtype_policy)
        self.projection = keras.layers.Dense(channels, name="projection", dtype=self.dtype_policy)
        super().build(input_shape)

    def call(self, x):
        pixels, channels = self.pixels(x), x.shape[-1]
        depth = channels // self.heads
        tokens = ops.reshape(self.query_key_value(self.input_norm(x)), (-1, math.prod(pixels), 3, self.heads, depth))
        query, key, value = (tokens[:, :, part] for part in range(3))  # b token head depth
        logits = ops.einsum("bqhd,bkhd->bhqk", query * depth**-0.5, key)
        weights = ops.cast(ops.softmax(ops.cast(logits, "float32")), self.compute_dtype)
        mixed = ops.einsum("bhqk,bkhd->bqhd", weights, value)
        return x + self.projection(ops.reshape(mixed, (-1, *pixels, channels)))

    def get_config(self):
        return super().get_config() | {"heads": self.heads, "norm": self.norm, "groups": self.groups}
