"""The embedding that tells every block of a network which noise level, and which class, it works on: (b, e)."""

import math

import keras
from keras import ops

from unetkit.blocks import checks
from unetkit.blocks.base import TracedLayer
from unetkit.errors import UserError

CYCLES = (0.25, 64.0)
"""Lowest and highest frequency of the features, in cycles per unit of time: a whole run of time is at most about three units."""


@keras.saving.register_keras_serializable("unetkit")
class TimeEmbedding(TracedLayer):
    """Sines and cosines of time (Vaswani et al. 2017, section 3.5; Ho et al. 2020, appendix B), then two dense layers; all in float32.

    In 16 bits neighbouring noise levels would be one and the same number.

    Args:
        channels: e, even.

    Call arguments:
        time: (b,), of the order of 1: the noise level as the objective scales it.

    Returns:
        (b, e) float32
    """

    def __init__(self, channels: int, dtype="float32", **kwargs):
        super().__init__(dtype=dtype, **kwargs)
        self.channels = checks.count("TimeEmbedding", "channels", channels)
        if self.channels % 2:
            raise UserError(f"TimeEmbedding: channels={channels} is odd; it has as many sines as cosines, so use {channels + 1}.")
        self.dense1 = keras.layers.Dense(self.channels, activation="silu", name="dense1", dtype=self.dtype_policy)
        self.dense2 = keras.layers.Dense(self.channels, name="dense2", dtype=self.dtype_policy)

    def call(self, time):
        low, high = (math.log(2.0 * math.pi * cycles) for cycles in CYCLES)
        half = self.channels // 2
        rates = ops.exp(low + (high - low) / max(half - 1, 1) * ops.arange(half, dtype="float32"))
        angles = ops.expand_dims(ops.cast(time, "float32"), -1) * rates  # b e/2
        return self.dense2(self.dense1(ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)))

    def get_config(self):
        return super().get_config() | {"channels": self.channels}


@keras.saving.register_keras_serializable("unetkit")
class ClassEmbedding(TracedLayer):
    """A learned vector for each class, and one for "no class", which is number `classes`. In float32.

    Args:
        classes: number of classes.
        channels: e.

    Call arguments:
        label: (b,), whole numbers from 0 to `classes`.

    Returns:
        (b, e) float32
    """

    def __init__(self, classes: int, channels: int, dtype="float32", **kwargs):
        super().__init__(dtype=dtype, **kwargs)
        self.classes = checks.count("ClassEmbedding", "classes", classes)
        self.channels = checks.count("ClassEmbedding", "channels", channels)
        self.table = keras.layers.Dense(self.channels, use_bias=False, name="table", dtype=self.dtype_policy)

    def call(self, label):
        # A product with one-hot rows, not a gather: its gradient is a product too, which a TPU does at once, and a scatter is not.
        return self.table(ops.one_hot(ops.cast(label, "int32"), self.classes + 1, dtype="float32"))

    def get_config(self):
        return super().get_config() | {"classes": self.classes, "channels": self.channels}
