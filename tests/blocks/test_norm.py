"""Norms: what they do to the statistics, in which precision, and where they make no sense."""

import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unetkit.blocks import ConvBlock, GroupNorm
from unetkit.blocks.norm import largest_divisor, make_norm
from unetkit.blocks.precision import dtype_policy
from unetkit.errors import UserError
from unetkit.testing import compiled


def normed(layer, x):
    layer.build(x.shape)
    return compiled(layer)(x)


def noise(shape, mean=0.0, std=1.0):
    return np.random.default_rng(0).normal(mean, std, shape).astype("float32")


@pytest.mark.parametrize("mean", [0.0, 3.0])
def test_instance_norm_gives_mean_0_and_variance_1_per_sample_and_channel(mean):
    y = normed(make_norm("instance", 8), noise((3, 16, 16, 4), mean, 2.0)).astype("float64")
    assert np.abs(y.mean((1, 2))).max() < 1e-5
    assert np.abs(y.var((1, 2)) - 1).max() < 1e-2


def test_instance_norm_in_bfloat16_keeps_its_statistics_in_float32():
    x = noise((3, 64, 64, 4), 3.0, 2.0)
    with dtype_policy("mixed_bfloat16"):
        layer = make_norm("instance", 8)
        y = normed(layer, x).astype("float64")
    assert layer.gamma.dtype == layer.beta.dtype == "float32"
    exact = normed(make_norm("instance", 8), x)
    assert np.abs(y - exact).max() < 2**-8 * np.abs(exact).max()  # one rounding of the result, none inside
    # Rounding 4,096 numbers near 1 by up to 2^-9 each moves their mean by about 2^-9 / sqrt(3 * 4096), 2e-5.
    assert np.abs(y.mean((1, 2))).max() < 1e-4
    assert np.abs(y.var((1, 2)) - 1).max() < 1e-2


@pytest.mark.parametrize(("channels", "groups", "used"), [(8, 8, 8), (12, 8, 6), (4, 8, 4), (6, 1, 1), (7, 4, 1)])
def test_group_norm_is_keras_own_with_the_largest_divisor_as_groups(channels, groups, used):
    x = noise((2, 6, 4, channels), 1.0, 3.0)
    layer, reference = GroupNorm(groups), keras.layers.GroupNormalization(used, epsilon=1e-5)
    for norm in (layer, reference):
        norm.build(x.shape)
        norm.gamma.assign(np.linspace(0.5, 2, channels))
        norm.beta.assign(np.linspace(-1, 1, channels))
    assert np.allclose(compiled(layer)(x), compiled(reference)(x), atol=2e-6)


def test_group_norm_survives_a_mean_far_above_the_spread():
    x = noise((1, 16, 16, 4), 1000.0, 0.1)
    y = normed(GroupNorm(2, epsilon=1e-12), x).astype("float64")
    wide = x.astype("float64").reshape(1, 256, 2, 2)
    expected = (wide - wide.mean((1, 3), keepdims=True)) / wide.std((1, 3), keepdims=True)
    assert np.abs(y - expected.reshape(y.shape)).max() < 5e-3


def test_layer_norm_norms_the_channels_of_each_pixel():
    y = normed(make_norm("layer", 8), noise((2, 3, 3, 64), 5.0, 2.0))
    assert np.abs(y.mean(-1)).max() < 1e-5
    assert np.abs(y.var(-1) - 1).max() < 1e-2


def test_batch_norm_has_keras_epsilon_and_follows_training():
    layer = make_norm("batch", 8)
    x = noise((4, 8, 8, 3), 2.0, 3.0)
    layer.build(x.shape)
    assert layer.epsilon == 1e-3
    assert np.allclose(layer(x, training=False), x / np.sqrt(1 + 1e-3), atol=1e-5)
    assert np.abs(keras.ops.convert_to_numpy(layer(x, training=True)).mean((0, 1, 2))).max() < 1e-5


def test_none_returns_its_input():
    x = noise((1, 2, 2, 3))
    layer = make_norm("none", 8)
    assert np.array_equal(layer(x), x)
    assert not layer.weights


@given(channels=st.integers(1, 300), most=st.integers(1, 64))
def test_largest_divisor(channels, most):
    found = largest_divisor(channels, most)
    assert channels % found == 0
    assert found <= most
    assert not any(channels % n == 0 for n in range(found + 1, min(most, channels) + 1))


def test_a_norm_of_single_values_is_refused():
    with pytest.raises(UserError, match="leave a single value to normalise, which is always 0"):
        GroupNorm(None).build((2, 1, 1, 16))
    GroupNorm(8).build((2, 1, 1, 16))


@pytest.mark.parametrize(
    ("settings", "biased"),
    [
        ({"norm": "batch"}, False),
        ({"norm": "instance"}, False),
        ({"norm": "group", "groups": 8}, False),
        ({"norm": "group", "groups": 4}, True),
        ({"norm": "layer"}, True),
        ({"norm": "none"}, True),
        ({"norm": "batch", "norm_first": False}, True),
    ],
)
def test_a_convolution_has_no_bias_where_the_norm_behind_it_removes_it(settings, biased):
    block = ConvBlock(8, **settings)
    assert block.conv1.use_bias == block.conv2.use_bias == biased


def test_a_misspelt_norm_names_the_nearest():
    with pytest.raises(UserError, match=r"norm='grup' is not one of none, batch, group, .*filter_response\. Did you mean 'group'\?"):
        ConvBlock(8, norm="grup")
