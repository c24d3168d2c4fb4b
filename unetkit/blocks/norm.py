"""Normalisation by name: none, batch, group, instance, layer or filter_response.

Statistics and scaling are float32 under every precision policy; only the result is rounded to the policy's 16 bits.
"""

import keras
from keras import ops

from unetkit.addons.layers import TLU, FilterResponseNormalization
from unetkit.blocks import checks
from unetkit.errors import UserError

EPSILON = 1e-5  # of group, instance and layer norm, as PyTorch and the diffusion papers have it; batch norm keeps Keras' 1e-3
NAMES = ("none", "batch", "group", "instance", "layer", "filter_response")


def largest_divisor(channels: int, most: int) -> int:
    """The largest divisor of `channels` up to `most`."""
    return max(n for n in range(1, min(channels, most) + 1) if channels % n == 0)


def centres_each_channel(norm: str, groups: int, channels: int) -> bool:
    """Whether this norm takes away each channel's mean, so that a bias just before it would change nothing."""
    return norm in ("batch", "instance") or (norm == "group" and largest_divisor(channels, groups) == channels)


def make_norm(norm: str, groups: int, **layer_args) -> keras.layers.Layer:
    """The layer of a norm's name; for `none` one that returns its input.

    `layer` norms the channels of each pixel; `group` and `instance` norm each sample over its pixels.
    """
    if norm == "batch":
        return keras.layers.BatchNormalization(**layer_args)
    if norm == "group":
        return GroupNorm(groups, **layer_args)
    if norm == "instance":
        return GroupNorm(None, **layer_args)
    if norm == "filter_response":
        return FilterResponse(**layer_args)
    if norm == "layer":
        return keras.layers.LayerNormalization(epsilon=EPSILON, **layer_args)
    return keras.layers.Identity(**layer_args)


@keras.saving.register_keras_serializable("unetkit")
class GroupNorm(keras.layers.Layer):
    """Group norm (Wu and He 2018, eq. 1): mean 0 and variance 1 over the pixels and channels of each group of each sample.

    Unlike `keras.layers.GroupNormalization` it never splits the channel axis of the image itself, only that of the (b, c)
    statistics, so the image keeps its layout on a TPU.

    Args:
        groups: channel groups; the largest divisor of the channels up to this is used. None: one per channel (instance norm).
        epsilon: added to the variance.

    Call arguments:
        x: (b, ..., c)

    Returns:
        (b, ..., c)
    """

    def __init__(self, groups: int | None = 8, epsilon: float = EPSILON, **kwargs):
        super().__init__(**kwargs)
        self.groups = groups if groups is None else checks.count("GroupNorm", "groups", groups)
        self.epsilon = epsilon
        self.autocast = False  # 16-bit inputs are widened in `call`, float32 ones must not be narrowed before

    def build(self, input_shape):
        pixels, channels = input_shape[1:-1], input_shape[-1]
        self.group_count = channels if self.groups is None else largest_divisor(channels, self.groups)
        if all(side == 1 for side in pixels) and self.group_count == channels:
            raise UserError(
                f"{self.path}: one pixel and one channel per group leave a single value to normalise, which is always 0. "
                "Use fewer levels, fewer groups, a larger image, or norm 'batch', 'layer' or 'none' at this level."
            )
        self.gamma_initializer, self.beta_initializer = keras.initializers.Ones(), keras.initializers.Zeros()
        self.gamma = self.add_weight(name="gamma", shape=(channels,), initializer=self.gamma_initializer, autocast=False)
        self.beta = self.add_weight(name="beta", shape=(channels,), initializer=self.beta_initializer, autocast=False)

    def call(self, x):
        x = ops.cast(x, "float32")
        centred = x - self.group_mean(x)
        # Squares of centred values, not the mean of squares less the squared mean: that loses all digits where the mean is large.
        variance = self.group_mean(ops.square(centred))
        y = centred * (ops.rsqrt(variance + self.epsilon) * self.gamma) + self.beta
        return ops.cast(y, self.compute_dtype)

    def group_mean(self, x):
        """The mean over each group's pixels and channels, repeated for each of its channels: (b, ..., c) -> (b, 1, ..., c)."""
        mean = self.over_groups(ops.mean(x, axis=tuple(range(1, len(x.shape) - 1))))  # b c
        return ops.reshape(mean, (-1, *(1,) * (len(x.shape) - 2), x.shape[-1]))

    def over_groups(self, means):
        """From each channel's mean to that of its group, repeated for each of its channels: (b, c) -> (b, c)."""
        channels = means.shape[-1]
        per_group = channels // self.group_count
        if per_group == 1:
            return means
        means = ops.mean(ops.reshape(means, (-1, self.group_count, per_group)), axis=-1)  # b group
        return ops.repeat(means, per_group, axis=-1)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return super().get_config() | {"groups": self.groups, "epsilon": self.epsilon}


@keras.saving.register_keras_serializable("unetkit")
class FilterResponse(keras.layers.Layer):
    """Filter response normalization and its threshold, one per channel (Singh and Krishnan 2020, section 3.2).

    The threshold takes the place of the activation: the block's own is best `linear`.

    Call arguments:
        x: (b, h, w, c)

    Returns:
        (b, h, w, c)
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.response = FilterResponseNormalization(name="response", dtype=self.dtype_policy)
        self.threshold = TLU(shared_axes=[1, 2], name="threshold", dtype=self.dtype_policy)

    def build(self, input_shape):
        self.response.build(input_shape)
        self.threshold.build(input_shape)

    def call(self, x):
        return self.threshold(self.response(x))

    def compute_output_shape(self, input_shape):
        return input_shape
