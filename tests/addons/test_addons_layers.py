"""Normalization of activations and kernels: the promises of every block, bfloat16, pure calls, and bad arguments."""

import keras
import numpy as np
import pytest

from unetkit.addons import layers
from unetkit.blocks.precision import dtype_policy
from unetkit.errors import UserError
from unetkit.testing import check_block


def conv(**settings):
    return keras.layers.Conv2D(5, 3, padding="same", name="conv", **settings)


def noise(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


CASES = {
    "instance": layers.InstanceNormalization,
    "filter-response": lambda name: layers.FilterResponseNormalization(learned_epsilon=True, name=name),
    "tlu": lambda name: layers.TLU(affine=True, shared_axes=[1, 2], name=name),
    "weight": lambda name: layers.WeightNormalization(conv(), data_init=False, name=name),
    "spectral": lambda name: layers.SpectralNormalization(conv(), name=name),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_layer_keeps_every_promise_of_a_block(case):
    check_block(case)


def largest_singular_value(kernel) -> float:
    kernel = keras.ops.convert_to_numpy(kernel)
    return np.linalg.svd(kernel.reshape(-1, kernel.shape[-1]), compute_uv=False)[0]


@pytest.fixture(autouse=True)
def seeded():
    """The same initial kernels every time: how fast power iteration converges depends on their two largest singular values."""
    keras.utils.set_random_seed(0)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_spectral_norm_is_1_after_twenty_calls_in_training(policy, tmp_path):
    x = noise(2, 6, 6, 3)
    with dtype_policy(policy):
        layer = layers.SpectralNormalization(conv())
        model = keras.Sequential([keras.Input((6, 6, 3)), layer])
        for _ in range(20):
            model(x, training=True)
    assert largest_singular_value(layer.kernel.value) == pytest.approx(1, abs=0.02)
    assert layer.kernel.dtype == layer.u.dtype == "float32"
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(*(keras.ops.convert_to_numpy(keras.ops.cast(m(x), "float32")) for m in (model, again)))


def test_spectral_norm_of_a_pure_step_holds_out_of_training_too():
    """Where a step may not write the kernel back, the singular value is kept beside it."""
    x = noise(2, 6, 6, 3)
    layer = layers.SpectralNormalization(conv(use_bias=False))
    layer.build(x.shape)
    trainable = [v.value for v in layer.trainable_variables]
    others = [v.value for v in layer.non_trainable_variables]
    for _ in range(20):
        in_training, others = layer.stateless_call(trainable, others, x, training=True)
    after, same = layer.stateless_call(trainable, others, x, training=False)
    np.testing.assert_allclose(in_training, after, atol=1e-6)
    assert all(np.array_equal(a, b) for a, b in zip(others, same, strict=True))
    sigma = dict(zip((v.name for v in layer.non_trainable_variables), others, strict=True))["sigma"]
    assert largest_singular_value(layer.kernel.value / sigma) == pytest.approx(1, abs=0.02)


def test_a_kernel_of_zeros_stays_zeros():
    layer = layers.SpectralNormalization(conv(kernel_initializer="zeros"))
    assert not np.any(layer(noise(1, 4, 4, 2), training=True))


def test_weight_norm_by_data_makes_unit_outputs_and_leaves_the_activation_alone():
    x = noise(8, 8, 8, 3) * 3 + 1
    layer = layers.WeightNormalization(conv(activation="relu"))
    layer(x)
    y = keras.ops.convert_to_numpy(layer.linear(x))
    norm = np.sqrt(np.square(keras.ops.convert_to_numpy(layer.kernel)).sum((0, 1, 2)))
    g, bias = (keras.ops.convert_to_numpy(v) for v in (layer.g, layer.layer.bias))
    assert layer.layer.activation is keras.activations.relu
    # Of the raw kernel's outputs, as in the original: section 3 of the paper has them of the normalized kernel.
    np.testing.assert_allclose((y - bias).std((0, 1, 2)) * g, 1, rtol=1e-4)
    assert np.all(norm > 0)
    before = g.copy()
    layer(x * 2)
    np.testing.assert_array_equal(before, keras.ops.convert_to_numpy(layer.g))


def test_weight_norm_removed_gives_the_same_layer():
    x = noise(2, 6, 6, 3)
    layer = layers.WeightNormalization(conv(), data_init=False)
    y = layer(x)
    layer.g.assign(layer.g * 2)
    y = layer(x)
    np.testing.assert_allclose(layer.remove()(x), y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layers.SpectralNormalization(keras.layers.ReLU()).build((1, 4, 4, 2)), "ReLU has no kernel or embeddings"),
        (lambda: layers.SpectralNormalization(conv(), power_iterations=0), "power_iterations=0 must be"),
        (lambda: layers.WeightNormalization(keras.layers.LSTM(3)), "recurrent layers are not supported"),
        (lambda: layers.FilterResponseNormalization(axis=[1]), r"axis=\[1\] must be \[1, 2\]"),
        (lambda: layers.FilterResponseNormalization().build((2, 3, 4)), r"needs \(b, h, w, c\)"),
        (lambda: layers.TLU().build((None, None, None, 3)), r"shared_axes=\[1, 2\]"),
    ],
)
def test_what_cannot_be_normalized_is_refused(make, message):
    with pytest.raises(UserError, match=message):
        make()
