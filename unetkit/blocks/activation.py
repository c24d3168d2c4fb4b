"""Activations by name: every name Keras knows, and leaky ReLU with a slope of one's own."""

import functools
from collections.abc import Callable

import keras

from unetkit.blocks.checks import did_you_mean
from unetkit.errors import UserError

LEAKY_SLOPE = 0.2
NAMES = sorted(name for name in dir(keras.activations) if name[0] != "_" and name not in ("deserialize", "get", "serialize"))


def activation_function(owner: str, activation: str, negative_slope: float | None) -> Callable:
    """The function of a name.

    Args:
        owner: who asks; begins the error message.
        activation: a Keras activation by name, as `silu`, `relu`, `leaky_relu`.
        negative_slope: slope of leaky_relu below zero; 0 is ReLU, None is 0.2. Only leaky_relu has one.

    Raises:
        UserError: an unknown name, a layer or function in place of a name, or a slope that is negative or not wanted.
    """
    if not isinstance(activation, str):
        raise UserError(
            f"{owner}: activation={activation!r} must be a name, as 'silu', so that the model can be saved and opened elsewhere."
        )
    if activation not in NAMES:
        raise UserError(f"{owner}: activation={activation!r} is unknown.{did_you_mean(activation, NAMES)} Keras knows {', '.join(NAMES)}.")
    if activation == "leaky_relu":
        slope = LEAKY_SLOPE if negative_slope is None else negative_slope
        if isinstance(slope, bool) or not isinstance(slope, (int, float)) or not slope >= 0:
            raise UserError(f"{owner}: negative_slope={negative_slope!r} must be a number, 0 or more (0 is ReLU, None is {LEAKY_SLOPE}).")
        return functools.partial(keras.activations.leaky_relu, negative_slope=float(slope))
    if negative_slope is not None:
        raise UserError(f"{owner}: negative_slope={negative_slope!r} belongs to leaky_relu alone; activation is {activation!r}.")
    return keras.activations.get(activation)
