"""Initial weights: a function of seed and place alone, from the distribution that each layer asks for."""

import keras
import numpy as np
import pytest

from unetkit.errors import UserError
from unetkit.models import UNet, initialize
from unetkit.models.initial import draw


def weights_of(model):
    return {weight.path: weight.numpy() for weight in model.weights}


def unet(**arguments):
    return UNet((16, 16, 3), **{"levels": (8, 16), "norm": "batch"} | arguments)


def test_the_same_seed_gives_the_same_weights_and_another_gives_others():
    a, b, c = unet(), unet(), unet()
    for model, seed in ((a, 1), (b, 1), (c, 2)):
        initialize(model, seed)
    assert all(np.array_equal(value, weights_of(b)[path]) for path, value in weights_of(a).items())
    assert not any(np.array_equal(value, weights_of(c)[path]) for path, value in weights_of(a).items() if path.endswith("kernel"))


def test_a_layer_added_elsewhere_changes_nothing_here():
    a, b = unet(), unet(levels=(8, {"channels": 16, "attention": True}))
    initialize(a, 0)
    initialize(b, 0)
    assert all(np.array_equal(value, weights_of(b)[path]) for path, value in weights_of(a).items())


def test_every_kind_of_weight_gets_what_its_layer_asks_for():
    model = unet()
    for weight in model.weights:
        weight.assign(np.full(weight.shape, 7.0))
    initialize(model, 0)
    values = weights_of(model)
    for path, value in values.items():
        if path.endswith(("bias", "beta", "moving_mean")):
            assert not value.any(), path
        elif path.endswith(("gamma", "moving_variance")):
            assert (value == 1).all(), path
        else:
            fan_in, fan_out = np.prod(value.shape[:-1]), np.prod(value.shape[:-2]) * value.shape[-1]
            limit = np.sqrt(6 / (fan_in + fan_out))  # Glorot and Bengio 2010, eq. 16
            assert limit * 0.9 < np.abs(value).max() <= limit, path
            assert abs(value.std() / (limit / np.sqrt(3)) - 1) < 0.15, path


INITIALIZERS = [
    keras.initializers.GlorotUniform(),
    keras.initializers.GlorotNormal(),
    keras.initializers.HeNormal(),
    keras.initializers.HeUniform(),
    keras.initializers.LecunNormal(),
    keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal"),
    keras.initializers.RandomNormal(0.5, 0.02),
    keras.initializers.TruncatedNormal(-0.5, 0.02),
    keras.initializers.RandomUniform(-0.1, 0.3),
]


@pytest.mark.parametrize("initializer", INITIALIZERS, ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("shape", [(3, 3, 20, 40), (50, 60), (3000,)])
def test_numpy_draws_the_distribution_of_the_keras_initializer(initializer, shape):
    variable = keras.Variable(np.zeros(shape, "float32"), name="kernel")
    ours = np.sort(draw(initializer, variable, seed=0).ravel())
    theirs = np.sort(keras.ops.convert_to_numpy(initializer.clone()(shape)).ravel())
    assert ours.std() > 0
    # Kolmogorov-Smirnov, two samples of equal size: 1.95 * sqrt(2 / n) is passed by chance once in a thousand.
    grid = np.concatenate([ours, theirs])
    distance = np.abs(np.searchsorted(ours, grid, "right") - np.searchsorted(theirs, grid, "right")).max() / ours.size
    assert distance < 1.95 * np.sqrt(2 / ours.size)
    assert abs(ours.std() / theirs.std() - 1) < 0.06


def test_constants_are_constants():
    variable = keras.Variable(np.zeros((2, 3), "float32"), name="kernel")
    assert (draw(keras.initializers.Constant(0.25), variable, 0) == 0.25).all()


class Unsaid(keras.layers.Layer):
    def build(self, input_shape):
        self.mystery = self.add_weight(name="mystery", shape=(3,), initializer="uniform")

    def call(self, x):
        return x * self.mystery


def test_a_weight_without_a_known_initializer_is_an_error_that_changes_nothing():
    image = keras.Input((4, 4, 3))
    model = keras.Model(image, Unsaid(name="odd")(keras.layers.Conv2D(3, 1, name="first")(image)))
    before = model.get_weights()
    with pytest.raises(UserError, match=r"odd/mystery: Unsaid does not say how .* Keep its initializer as self\.mystery_initializer"):
        initialize(model, 0)
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))


def test_an_initializer_without_counterpart_is_named():
    variable = keras.Variable(np.zeros((4, 4), "float32"), name="kernel")
    with pytest.raises(UserError, match=r"the initializer Orthogonal has no NumPy counterpart here\. Known: Zeros"):
        draw(keras.initializers.Orthogonal(), variable, 0)


def test_depthwise_and_pointwise_kernels_are_found():
    image = keras.Input((4, 4, 3))
    model = keras.Model(image, keras.layers.SeparableConv2D(5, 3, name="separable")(image))
    initialize(model, 0)
    assert all(weight.numpy().any() for weight in model.weights if weight.name.endswith("kernel"))


class Owned(keras.layers.Layer):
    """A user's layer that keeps no initializer."""

    def __init__(self, initializer, size=4):
        super().__init__()
        self.w = self.add_weight(shape=(size,), initializer=initializer, name="w")

    def call(self, x):
        return x * self.w


LAYERS = [
    (keras.layers.DepthwiseConv2D, (3,), (8, 8, 4)),
    (keras.layers.DepthwiseConv1D, (3,), (8, 4)),
    (keras.layers.SeparableConv2D, (6, 3), (8, 8, 4)),
    (keras.layers.Dense, (5,), (8, 8, 4)),
    (keras.layers.EinsumDense, ("bhwc,cd->bhwd", (None, None, 5)), (8, 8, 4)),
    (keras.layers.PReLU, (), (8, 8, 4)),
    (keras.layers.RMSNormalization, (), (8, 8, 4)),
    (keras.layers.GroupNormalization, (2,), (8, 8, 4)),
    (lambda: keras.layers.SpectralNormalization(keras.layers.Conv2D(3, 3)), (), (8, 8, 4)),
    (Owned, ("ones",), (8, 8, 4)),
]


@pytest.mark.parametrize(("layer", "arguments", "shape"), LAYERS)
def test_weights_of_layers_that_a_block_may_hold_are_drawn_again(layer, arguments, shape):
    image = keras.Input(shape)
    model = keras.Model(image, layer(*arguments)(image))
    built = [weight.numpy() for weight in model.weights]
    initialize(model, 3)
    drawn = [weight.numpy() for weight in model.weights]
    initialize(model, 3)
    again = [weight.numpy() for weight in model.weights]
    assert built
    for weight, before, first, second in zip(model.weights, built, drawn, again, strict=True):
        assert np.array_equal(first, second), weight.path
        assert (np.ptp(first) > 0) == (np.ptp(before) > 0), weight.path  # constants stay constants, random numbers are random
        assert np.array_equal(first, before) == (np.ptp(before) == 0), weight.path  # and not the engine's own


@pytest.mark.parametrize(("initializer", "size"), [("glorot_uniform", 4), ("random_normal", 1)])
def test_a_weight_of_random_numbers_without_its_initializer_is_named(initializer, size):
    image = keras.Input((8, 8, size))
    with pytest.raises(UserError, match=r"Owned does not say how 'w' is drawn.*self\.w_initializer"):
        initialize(keras.Model(image, Owned(initializer, size)(image)), 0)
