"""Between levels: sizes halve and double exactly, with shapes that a TPU program can be made from."""

import numpy as np
import pytest

from unetkit.blocks import MaxPool, NearestConv, StridedConv, TransposedConv
from unetkit.errors import UserError
from unetkit.testing import compiled


@pytest.mark.parametrize("up", [TransposedConv, NearestConv])
@pytest.mark.parametrize("kernel_size", [2, 3, 4, 5])
def test_up_samplers_double_any_size_with_any_kernel(up, kernel_size):
    layer = up(5, kernel_size=kernel_size)
    x = np.ones((2, 3, 7, 4), "float32")
    assert layer.compute_output_shape(x.shape) == (2, 6, 14, 5)
    assert compiled(layer)(x).shape == (2, 6, 14, 5)


@pytest.mark.parametrize("down", [MaxPool, StridedConv])
def test_down_samplers_halve_and_refuse_what_does_not_halve(down):
    assert compiled(down(4))(np.ones((2, 6, 14, 4), "float32")).shape == (2, 3, 7, 4)
    with pytest.raises(UserError, match=r"\(6, 13\) pixels do not halve"):
        down(4).build((2, 6, 13, 4))


def test_unknown_sizes_are_refused():
    for layer in (MaxPool(4), NearestConv(4)):
        with pytest.raises(UserError, match=r"needs known sides .* \(None, None, 8, 4\)"):
            layer.build((None, None, 8, 4))


def test_nearest_repeats_each_pixel():
    layer = NearestConv(1, kernel_size=1, activation="linear")
    x = np.arange(6, dtype="float32").reshape(1, 2, 3, 1)
    layer.build(x.shape)
    layer.conv.kernel.assign(np.ones((1, 1, 1, 1)))
    assert np.array_equal(compiled(layer)(x)[0, ..., 0], np.kron(x[0, ..., 0], np.ones((2, 2))))


def test_a_transposed_kernel_of_1_is_refused():
    with pytest.raises(UserError, match="kernel_size=1 leaves three of four pixels without input"):
        TransposedConv(4, kernel_size=1)


@pytest.mark.parametrize("layer", [MaxPool(4), StridedConv(4), TransposedConv(4, kernel_size=3), NearestConv(4, kernel_size=2)])
def test_every_shape_inside_is_static_and_xla_computes_the_same(layer):
    import tensorflow as tf

    x = tf.constant(np.random.default_rng(0).normal(size=(2, 8, 6, 4)), tf.float32)
    layer.build(x.shape)

    def output_and_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
        return y, tape.gradient(y, x)

    traced = tf.function(output_and_gradient).get_concrete_function(x)
    dynamic = [out.name for op in traced.graph.get_operations() for out in op.outputs if not out.shape.is_fully_defined()]
    assert not dynamic
    compiled_by_xla = tf.function(output_and_gradient, jit_compile=True)
    for found, expected in zip(compiled_by_xla(x), output_and_gradient(x), strict=True):
        assert np.allclose(found, expected, atol=1e-5)
