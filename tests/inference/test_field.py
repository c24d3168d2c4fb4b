"""The receptive field read off the layers is the one that the network has: measured by changing one pixel at a time."""

import itertools
import re

import keras
import numpy as np
import pytest
from keras import layers, ops

from unetkit.compiled import compiled
from unetkit.errors import UserError
from unetkit.inference.field import receptive
from unetkit.models import UNet


def measured(model: keras.Model, tile: int, stride: int) -> int:
    """The farthest that a changed pixel is seen, over all phases of the total stride. Signals, (b, w, 1)."""
    run = compiled(model)
    base = np.random.default_rng(0).uniform(1, 2, (1, tile, 1)).astype("float32")
    middle = tile // 2 // stride * stride
    pixels = list(range(middle, middle + stride))
    unchanged = np.repeat(base, 2 * len(pixels), axis=0)  # a batch of another size may be summed in another order
    batch = unchanged.copy()
    for row, (pixel, change) in enumerate(itertools.product(pixels, (50.0, -0.9))):
        batch[row, pixel] += change
    changed = np.abs(run(batch) - run(unchanged)).max(axis=-1) > 0
    return max(np.abs(np.flatnonzero(row) - pixels[n // 2]).max(initial=0) for n, row in enumerate(changed))


def positive(model: keras.Model) -> keras.Model:
    """With kernels that let every pixel through: no sum cancels, no activation is off, nothing gets lost in the rounding."""
    for weight in model.weights:
        if weight.name == "kernel":
            weight.assign(np.full(weight.shape, 1 / min(weight.shape[-2:])))
    return model


CASES = {
    "u-net": {"levels": (2, 2, 2)},
    "strided and transposed": {"levels": (2, 2, 2), "down": "strided_conv", "up": "transposed_conv"},
    "two blocks, 5-wide": {"levels": (2, 2), "blocks": 2, "kernel_size": 5, "residual": "add"},
    "even up-kernel": {"levels": (2, 2, 2), "up_kernel_size": 2, "residual": "concat"},
    "transposed, 4-wide": {"levels": (2, 2), "up": "transposed_conv", "up_kernel_size": 4, "norm": "batch"},
}


@pytest.mark.parametrize("name", CASES)
def test_the_radius_of_a_u_net_is_what_a_changed_pixel_reaches(name):
    settings = {"norm": "none", "activation": "relu", "output_activation": "linear"} | CASES[name]
    model = positive(UNet((128, 1), **settings))
    found = receptive(model, (128,))
    assert found.stride == 2 ** (len(settings["levels"]) - 1) and found.everywhere is None
    # Never less; more only where no phase of the total stride has both of what the bound adds up.
    assert 0 <= found.radius[0] - measured(model, 128, found.stride) < found.stride


def plain(*made, sides=(32,)) -> keras.Model:
    image = x = keras.Input((*sides, 1))
    for layer in made:
        x = layer(x)
    return keras.Model(image, x)


class Blur(layers.Layer):
    """A layer of a user's own, made of others and of `keras.ops`."""

    def __init__(self):
        super().__init__()
        self.conv = layers.Conv1D(1, 3, padding="same", dilation_rate=4)

    def call(self, x):
        return ops.relu(self.conv(x)) + x


class Whole(layers.Layer):
    def call(self, x):
        return x - ops.mean(x, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("model", "radius", "stride"),
    [
        (plain(layers.Conv1D(1, 3, padding="same")), 1, 1),
        (plain(layers.Conv1D(1, 5, padding="causal")), 4, 1),
        (plain(layers.ZeroPadding1D((2, 2)), layers.Conv1D(1, 5)), 2, 1),
        (plain(layers.Conv1D(1, 5), layers.ZeroPadding1D((4, 0))), 4, 1),
        (plain(Blur(), layers.Activation("tanh")), 4, 1),
        (plain(layers.MaxPooling1D(4), layers.UpSampling1D(4)), 3, 4),
        (plain(layers.AveragePooling1D(2), layers.Conv1DTranspose(1, 2, strides=2, padding="same")), 1, 2),
        (keras.Sequential([keras.Input((32, 1)), plain(layers.Conv1D(1, 7, padding="same")), layers.LeakyReLU()]), 3, 1),
    ],
    ids=lambda value: value.name if isinstance(value, keras.Model) else str(value),
)
def test_other_layers_and_layers_of_ones_own(model, radius, stride):
    found = receptive(model, (32,))
    assert (found.radius, found.stride) == ((radius,), stride)
    assert measured(positive(model), 32, stride) == radius


def test_each_axis_has_its_own_radius():
    model = plain(layers.Conv2D(1, (3, 7), padding="same"), layers.Conv2D(1, (1, 3), padding="same"), sides=(16, 16))
    assert receptive(model, (16, 16)).radius == (1, 4)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (UNet((32, 1), levels=(2, 4)), r"down_0/block0/norm1 \(GroupNorm\)"),
        (UNet((32, 1), levels=(2, {"channels": 4, "attention": True}), norm="layer"), r"bottom/attention \(SelfAttention\)"),
        (plain(Whole()), r"whole.* \(Whole\)"),
        (plain(layers.LayerNormalization(axis=[1, 2])), r"layer_norm.* \(LayerNormalization\)"),
    ],
    ids=["group norm", "attention", "a mean over pixels", "layer norm over pixels"],
)
def test_what_looks_everywhere_is_named(model, reason):
    found = receptive(model, (32,))
    assert found.radius is None and re.fullmatch(reason, found.everywhere)


def test_what_cannot_be_tiled_is_refused():
    with pytest.raises(UserError, match="its output is not as large as its input"):
        receptive(plain(layers.MaxPooling1D(2)), (32,))
    first, second = keras.Input((32, 1)), keras.Input((32, 1))
    with pytest.raises(UserError, match="has 2 inputs and 1 outputs"):
        receptive(keras.Model([first, second], layers.Add()([first, second])), (32,))
