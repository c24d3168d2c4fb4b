"""Instance and filter response normalization, and the thresholded linear unit. Statistics are float32 under every policy.

`GroupNormalization` is Keras' own: since Keras 3.15 it has the old one's arguments, defaults and numbers.
"""

from collections.abc import Sequence

import keras
from keras import ops

from unetkit.errors import UserError


@keras.saving.register_keras_serializable("unetkit.addons")
class InstanceNormalization(keras.layers.GroupNormalization):
    """Mean 0 and variance 1 over the pixels of each sample and channel (Ulyanov et al. 2016), then a learned scale and offset.

    Args:
        **kwargs: those of `keras.layers.GroupNormalization` but `groups`, which is one per channel. `epsilon` is 1e-3.

    Call arguments:
        inputs: (b, ..., c)

    Returns:
        (b, ..., c)
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs | {"groups": -1})

    def get_config(self):
        return super().get_config() | {"groups": -1}


@keras.saving.register_keras_serializable("unetkit.addons")
class FilterResponseNormalization(keras.layers.Layer):
    """gamma * x / sqrt(mean of x^2 over the pixels + |epsilon|) + beta (Singh and Krishnan 2020, eq. 1-4). Put `TLU` after it.

    Args:
        epsilon: added to the mean square.
        axis: [1, 2]: the rows and columns, and nothing else.
        beta_initializer, gamma_initializer, beta_regularizer, gamma_regularizer, beta_constraint, gamma_constraint: as in
            Keras' norms.
        learned_epsilon: whether |a learned number| that starts at 1e-4 is added to epsilon.
        learned_epsilon_constraint: of that number.

    Call arguments:
        inputs: (b, h, w, c)

    Returns:
        (b, h, w, c)
    """

    def __init__(
        self,
        epsilon: float = 1e-6,
        axis: Sequence[int] = (1, 2),
        beta_initializer="zeros",
        gamma_initializer="ones",
        beta_regularizer=None,
        gamma_regularizer=None,
        beta_constraint=None,
        gamma_constraint=None,
        learned_epsilon: bool = False,
        learned_epsilon_constraint=None,
        name: str | None = None,
        **kwargs,
    ):
        super().__init__(name=name, **kwargs)
        if list(axis) != [1, 2]:
            raise UserError(f"FilterResponseNormalization: axis={axis!r} must be [1, 2], the rows and columns of (b, h, w, c).")
        self.autocast = False  # 16-bit inputs are widened in `call`, and the weights stay float32
        self.supports_masking = True
        self.epsilon = epsilon
        self.axis = list(axis)
        self.learned_epsilon = learned_epsilon
        self.beta_initializer = keras.initializers.get(beta_initializer)
        self.gamma_initializer = keras.initializers.get(gamma_initializer)
        self.learned_epsilon_initializer = keras.initializers.Constant(1e-4)
        self.beta_regularizer = keras.regularizers.get(beta_regularizer)
        self.gamma_regularizer = keras.regularizers.get(gamma_regularizer)
        self.beta_constraint = keras.constraints.get(beta_constraint)
        self.gamma_constraint = keras.constraints.get(gamma_constraint)
        self.learned_epsilon_constraint = keras.constraints.get(learned_epsilon_constraint)

    def build(self, input_shape):
        if len(input_shape) != 4 or None in input_shape[1:]:
            raise UserError(f"FilterResponseNormalization: needs (b, h, w, c) with known h, w and c, but was given {tuple(input_shape)}.")
        if self.learned_epsilon:
            self.epsilon_weight = self.add_weight(
                shape=(1,),
                name="learned_epsilon",
                initializer=self.learned_epsilon_initializer,
                constraint=self.learned_epsilon_constraint,
                autocast=False,
            )
        self.gamma, self.beta = (
            self.add_weight(
                shape=(1, 1, 1, input_shape[-1]),
                name=name,
                initializer=getattr(self, f"{name}_initializer"),
                regularizer=getattr(self, f"{name}_regularizer"),
                constraint=getattr(self, f"{name}_constraint"),
                autocast=False,
            )
            for name in ("gamma", "beta")
        )

    def call(self, inputs):
        x = ops.cast(inputs, "float32")
        epsilon = abs(self.epsilon)
        if self.learned_epsilon:
            epsilon = epsilon + ops.abs(self.epsilon_weight)
        mean_square = ops.mean(ops.square(x), axis=self.axis, keepdims=True)  # b 1 1 c
        return ops.cast(self.gamma * (x * ops.rsqrt(mean_square + epsilon)) + self.beta, self.compute_dtype)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return super().get_config() | {
            "epsilon": self.epsilon,
            "axis": self.axis,
            "beta_initializer": keras.initializers.serialize(self.beta_initializer),
            "gamma_initializer": keras.initializers.serialize(self.gamma_initializer),
            "beta_regularizer": keras.regularizers.serialize(self.beta_regularizer),
            "gamma_regularizer": keras.regularizers.serialize(self.gamma_regularizer),
            "beta_constraint": keras.constraints.serialize(self.beta_constraint),
            "gamma_constraint": keras.constraints.serialize(self.gamma_constraint),
            "learned_epsilon": self.learned_epsilon,
            "learned_epsilon_constraint": keras.constraints.serialize(self.learned_epsilon_constraint),
        }


@keras.saving.register_keras_serializable("unetkit.addons")
class TLU(keras.layers.Layer):
    """Thresholded linear unit max(x, tau), or max(x, tau + alpha * x) (Singh and Krishnan 2020, eq. 5), tau and alpha learned.

    Args:
        affine: whether there is an alpha.
        tau_initializer, tau_regularizer, tau_constraint, alpha_initializer, alpha_regularizer, alpha_constraint: as in Keras.
        shared_axes: axes along which tau and alpha are shared, as `[1, 2]`: one per channel, as in the paper. None, as in
            tensorflow-addons: one of each for every pixel and channel, so that the weights fit one size of image.

    Call arguments:
        inputs: (b, ...)

    Returns:
        (b, ...)
    """

    def __init__(
        self,
        affine: bool = False,
        tau_initializer="zeros",
        tau_regularizer=None,
        tau_constraint=None,
        alpha_initializer="zeros",
        alpha_regularizer=None,
        alpha_constraint=None,
        shared_axes: Sequence[int] | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.supports_masking = True
        self.affine = affine
        self.tau_initializer = keras.initializers.get(tau_initializer)
        self.tau_regularizer = keras.regularizers.get(tau_regularizer)
        self.tau_constraint = keras.constraints.get(tau_constraint)
        self.alpha_initializer = keras.initializers.get(alpha_initializer)
        self.alpha_regularizer = keras.regularizers.get(alpha_regularizer)
        self.alpha_constraint = keras.constraints.get(alpha_constraint)
        self.shared_axes = None if shared_axes is None else list(shared_axes)

    def build(self, input_shape):
        shape = [1 if axis in (self.shared_axes or ()) else side for axis, side in enumerate(input_shape)][1:]
        if None in shape:
            raise UserError(f"TLU: has a weight for each pixel of {tuple(input_shape)}, so they must be known; or use shared_axes=[1, 2].")
        names = ("tau", "alpha") if self.affine else ("tau",)
        for name in names:
            weight = self.add_weight(
                shape=shape,
                name=name,
                initializer=getattr(self, f"{name}_initializer"),
                regularizer=getattr(self, f"{name}_regularizer"),
                constraint=getattr(self, f"{name}_constraint"),
            )
            setattr(self, name, weight)

    def call(self, inputs):
        return ops.maximum(inputs, self.tau + self.alpha * inputs if self.affine else self.tau)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return super().get_config() | {
            "affine": self.affine,
            "tau_initializer": keras.initializers.serialize(self.tau_initializer),
            "tau_regularizer": keras.regularizers.serialize(self.tau_regularizer),
            "tau_constraint": keras.constraints.serialize(self.tau_constraint),
            "alpha_initializer": keras.initializers.serialize(self.alpha_initializer),
            "alpha_regularizer": keras.regularizers.serialize(self.alpha_regularizer),
            "alpha_constraint": keras.constraints.serialize(self.alpha_constraint),
            "shared_axes": self.shared_axes,
        }
