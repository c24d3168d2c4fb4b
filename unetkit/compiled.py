"""A layer or model as one compiled function from arrays to arrays, on either Keras backend."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from unetkit.errors import UserError


def compiled(layer: keras.layers.Layer) -> Callable[..., np.ndarray]:
    """The layer with training=False as the backend in use compiles it: (b, ...) -> (b, ...) float32, one program per shape.

    It takes what the layer's `call` takes: an array, several, or a list or mapping of them.

    It follows the layer's weights: assigning new ones does not compile it again.

    Raises:
        UserError: another backend than tensorflow and jax.
    """
    mode = call_mode(layer, training=False)
    if keras.backend.backend() == "jax":
        import jax

        @jax.jit
        def forward(state, *inputs):
            return layer.stateless_call(*state, *inputs, **mode)[0]

        return lambda *inputs: np.asarray(forward(state_of(layer), *inputs), "float32")
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        @tf.function
        def forward(*inputs):
            return tf.cast(layer(*inputs, **mode), "float32")

        def run(*inputs):
            specs = keras.tree.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), inputs)
            return forward.get_concrete_function(*specs)(*keras.tree.map_structure(tf.constant, inputs)).numpy()

        return run
    raise unknown_backend()


def call_mode(layer: keras.layers.Layer, training: bool) -> dict[str, bool]:
    """`training` as keyword arguments of a layer that takes it."""
    return {"training": training} if "training" in inspect.signature(layer.call).parameters else {}


def state_of(layer: keras.layers.Layer) -> tuple[list[Any], list[Any]]:
    """The values that `stateless_call` begins with: trainable ones, and the others."""
    return [v.value for v in layer.trainable_variables], [v.value for v in layer.non_trainable_variables]


def unknown_backend() -> UserError:
    return UserError(f"unetkit runs on the Keras backends tensorflow and jax; this process has {keras.backend.backend()}.")
