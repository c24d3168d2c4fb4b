"""Initial weights from NumPy, so that both engines start from the same numbers.

Each weight is drawn from the distribution of its own Keras initializer, by a generator keyed by (seed, path of the weight):
neither the engine, nor the order of building, nor a layer added elsewhere changes it.
"""

import hashlib
import math

import keras
import numpy as np

from unetkit.errors import UserError

# Keras' own layers that do not keep the initializer of a weight under the weight's name: weight -> (layers, their initializer)
DEPTHWISE = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)
ODD = {
    "kernel": (DEPTHWISE, lambda layer: layer.depthwise_initializer),
    "vector_u": (keras.layers.SpectralNormalization, lambda layer: keras.initializers.TruncatedNormal(stddev=0.02)),
}
TRUNCATED_STDDEV = 0.87962566103423978  # of a standard normal cut at 2 standard deviations


def initialize(model: keras.Model, seed: int) -> None:
    """Sets every weight of a built model to its initial value for this seed.

    Args:
        model: built; its layers keep the initializer of weight `kernel` as `kernel_initializer`, as Keras' own do. A weight
            that was built with one and the same number everywhere may do without.
        seed: 0 or more.

    Raises:
        UserError: a weight whose initializer is unknown, naming it; the weights are then left as they were.
    """
    values = [(weight, draw(initializer_of(layer, weight), weight, seed)) for layer, weight in owned_weights(model)]
    for weight, value in values:
        weight.assign(value)


def owned_weights(model: keras.Model):
    """Each weight once, with the innermost layer that holds it. Random generators' states are no weights."""
    owners = {}
    for layer in model._flatten_layers():  # a wrapper comes before what it wraps, and may hold that one's weights too
        for weight in (*layer._trainable_variables, *layer._non_trainable_variables):
            owners[id(weight)] = (layer, weight)
    return owners.values()


def initializer_of(layer: keras.layers.Layer, weight: keras.Variable) -> keras.initializers.Initializer:
    # recurrent_kernel is drawn by recurrent_initializer, every other weight by <its name>_initializer; but for ODD
    odd = ODD.get(weight.name)
    if odd and isinstance(layer, odd[0]):
        return keras.initializers.get(odd[1](layer))
    for name in (weight.name, weight.name.removesuffix("_kernel")):
        initializer = getattr(layer, f"{name}_initializer", None)
        if initializer is not None:
            return keras.initializers.get(initializer)
    values = np.ravel(keras.ops.convert_to_numpy(weight))
    if np.all(values == values[:1]) and (values.size > 1 or values.tolist() in ([0.0], [1.0])):  # no random numbers: alike on every engine
        return keras.initializers.Constant(float(values[0]))
    raise UserError(
        f"{weight.path}: {type(layer).__name__} does not say how {weight.name!r} is drawn. Keep its initializer as "
        f"self.{weight.name}_initializer, so that the same seed gives the same weights on every engine."
    )


def draw(initializer: keras.initializers.Initializer, weight: keras.Variable, seed: int) -> np.ndarray:
    """A value of the weight's shape from the initializer's distribution."""
    kinds, shape = keras.initializers, tuple(weight.shape)
    key = hashlib.sha256(weight.path.encode()).digest()
    rng = np.random.default_rng([seed, int.from_bytes(key[:16], "little")])
    if isinstance(initializer, kinds.Zeros):
        return np.zeros(shape, np.float32)
    if isinstance(initializer, kinds.Ones):
        return np.ones(shape, np.float32)
    if isinstance(initializer, kinds.Constant):
        return np.broadcast_to(np.asarray(initializer.value, np.float32), shape)
    if isinstance(initializer, kinds.RandomUniform):
        return rng.uniform(initializer.minval, initializer.maxval, shape)
    if isinstance(initializer, kinds.TruncatedNormal):
        return initializer.mean + initializer.stddev * truncated_normal(rng, shape)
    if isinstance(initializer, kinds.RandomNormal):
        return rng.normal(initializer.mean, initializer.stddev, shape)
    if isinstance(initializer, kinds.VarianceScaling):
        return variance_scaling(rng, shape, initializer.scale, initializer.mode, initializer.distribution)
    raise UserError(
        f"{weight.path}: the initializer {type(initializer).__name__} has no NumPy counterpart here. Known: Zeros, Ones, Constant, "
        "RandomUniform, RandomNormal, TruncatedNormal, VarianceScaling and its kin (Glorot, He, Lecun)."
    )


def variance_scaling(rng: np.random.Generator, shape: tuple[int, ...], scale: float, mode: str, distribution: str) -> np.ndarray:
    """Variance `scale / fan` (Glorot and Bengio 2010, eq. 16; He et al. 2015, eq. 10), fans as Keras counts them."""
    receptive_field = math.prod(shape[:-2])
    fan_in, fan_out = (receptive_field * n for n in (shape[-2:] if len(shape) > 1 else shape * 2))
    fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]
    stddev = math.sqrt(scale / max(1.0, fan))
    if distribution == "uniform":
        limit = math.sqrt(3.0) * stddev
        return rng.uniform(-limit, limit, shape)
    if distribution == "untruncated_normal":
        return rng.normal(0.0, stddev, shape)
    return stddev / TRUNCATED_STDDEV * truncated_normal(rng, shape)


def truncated_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normal numbers, each drawn again until it lies within 2 of 0."""
    values = rng.normal(size=shape)
    while (outside := np.abs(values) > 2).any():
        values[outside] = rng.normal(size=outside.sum())
    return values
