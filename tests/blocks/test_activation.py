"""Slopes of leaky ReLU and activation names: the values they give, and what is refused."""

import keras
import numpy as np
import pytest

from unetkit.blocks import ConvBlock, NearestConv
from unetkit.errors import UserError


def activated(values, **settings):
    """An up-sampler whose convolution is the identity: what remains is its activation."""
    layer = NearestConv(1, kernel_size=1, **settings)
    layer.build((1, 1, len(values), 1))
    layer.conv.kernel.assign(np.ones((1, 1, 1, 1)))
    x = np.array(values, "float32").reshape(1, 1, -1, 1)
    again = NearestConv.from_config(layer.get_config())
    again.build(x.shape)
    again.set_weights(layer.get_weights())
    assert np.array_equal(again(x), layer(x))
    return keras.ops.convert_to_numpy(layer(x))[0, 0, ::2, 0]


@pytest.mark.parametrize(("slope", "at_minus_1"), [(0.2, -0.2), (0, 0.0), (0.0, 0.0), (None, -0.2), (1.5, -1.5)])
def test_leaky_relu_has_the_slope_that_was_asked_for(slope, at_minus_1):
    assert np.array_equal(activated([-1, 2], activation="leaky_relu", negative_slope=slope), np.array([at_minus_1, 2], "float32"))


def test_activations_by_name_are_keras_own():
    x = [-1.0, 0.5, 2.0]
    for name in ("relu", "silu", "gelu", "elu", "linear"):
        expected = keras.activations.get(name)(keras.ops.convert_to_tensor(np.array(x, "float32")))
        assert np.allclose(activated(x, activation=name), expected, atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"activation": "leaky_relu", "negative_slope": -0.1}, r"ConvBlock: negative_slope=-0.1 must be a number, 0 or more"),
        ({"activation": "leaky_relu", "negative_slope": float("nan")}, "negative_slope=nan must be a number"),
        ({"activation": "leaky_relu", "negative_slope": True}, "negative_slope=True must be a number"),
        ({"activation": "relu", "negative_slope": 0.2}, "negative_slope=0.2 belongs to leaky_relu alone; activation is 'relu'"),
        ({"activation": "slu"}, "activation='slu' is unknown. Did you mean 'silu'"),
        ({"activation": keras.layers.LeakyReLU()}, "must be a name, as 'silu'"),
        ({"activation": None}, "activation=None must be a name"),
    ],
)
def test_what_is_no_activation_is_refused(settings, message):
    with pytest.raises(UserError, match=message):
        ConvBlock(4, **settings)
