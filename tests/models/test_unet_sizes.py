"""Sizes: the output is exactly as large as the input, or the network is refused before any tensor exists."""

import itertools

import keras
import pytest

from unetkit.errors import UserError
from unetkit.models import UNet, original_unet

DOWN, UP = ("max_pool", "strided_conv"), ("transposed_conv", "nearest_conv")


@pytest.mark.parametrize(("down", "up"), list(itertools.product(DOWN, UP)))
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_output_is_as_large_as_the_input_or_the_size_is_refused(depth, down, up):
    multiple = 2**depth
    for height, width in itertools.product((2 * multiple - 1, 2 * multiple, 2 * multiple + 1), (3 * multiple, 3 * multiple + 1)):
        arguments = {"input_shape": (height, width, 3), "levels": [4] * (depth + 1), "norm": "none", "down": down, "up": up}
        if height % multiple == width % multiple == 0:
            assert UNet(**arguments).output_shape == (None, height, width, 3)
            continue
        with pytest.raises(ValueError, match=rf"^input_shape: \[{height}, {width}\] cannot be halved") as refusal:
            UNet(**arguments)
        for side in (height, width):
            if side % multiple:
                assert f" {side // multiple * multiple} and {side // multiple * multiple + multiple}" in str(refusal.value)


def test_refused_before_any_layer_exists(monkeypatch):
    def no_layer(*args, **kwargs):
        raise AssertionError("a tensor was made before the size was checked")

    monkeypatch.setattr(keras, "Input", no_layer)
    with pytest.raises(UserError, match=r"358 cannot be halved 3 times, as 4 levels need .* 352 and 360"):
        UNet((358, 358, 3), levels=(4, 4, 4, 4))
    with pytest.raises(UserError, match=r"64 cannot be halved 7 times, .* the nearest size that works is 128"):
        original_unet((64, 64, 3), start_ch=4, depth=7)


@pytest.mark.parametrize(
    ("input_shape", "message"),
    [
        ((None, None, 3), "must be numbers: a TPU program has one static shape"),
        ((16,), r"must be \(height, width, channels\) or \(width, channels\), without the batch"),
        ((1, 16, 16, 3), r"must be \(height, width, channels\) or \(width, channels\), without the batch"),
        (16, r"must be \(height, width, channels\)"),
        ((16, 16, 0), "input_shape: channels=0 must be a whole number, 1 or more"),
        ((16.5, 16, 3), "input_shape: height=16.5 must be a whole number, 1 or more"),
    ],
)
def test_what_is_no_image_shape_is_refused(input_shape, message):
    with pytest.raises(UserError, match=message):
        UNet(input_shape, levels=(4, 4))


@pytest.mark.parametrize(("down", "up"), list(itertools.product(DOWN, UP)))
def test_a_signal_comes_out_as_long_as_it_went_in(down, up):
    signals = UNet((48, 2), levels=(4, 8, {"channels": 8, "attention": True}), down=down, up=up, output_channels=1)
    assert signals.output_shape == (None, 48, 1)
    images = UNet((16, 16, 2), levels=(4, 8, {"channels": 8, "attention": True}), down=down, up=up, output_channels=1)
    assert [weight.path for weight in signals.weights] == [weight.path for weight in images.weights]
    with pytest.raises(UserError, match=r"^input_shape: 50 cannot be halved twice|^input_shape: 50 cannot be halved 2 times"):
        UNet((50, 2), levels=(4, 8, 8), down=down, up=up)


def test_one_level_takes_any_size():
    assert UNet((7, 5, 3), levels=(4,)).output_shape == (None, 7, 5, 3)


@pytest.mark.parametrize("up", UP)
def test_every_shape_of_a_training_step_is_static(up):
    import tensorflow as tf

    model = UNet((8, 8, 3), levels=(4, {"channels": 8, "attention": True, "dropout": 0.2}), down="strided_conv", up=up, residual="add")

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True)))
        return tape.gradient(loss, [v.value for v in model.trainable_variables])

    graph = step.get_concrete_function(tf.TensorSpec((2, 8, 8, 3))).graph
    dynamic = [out.name for op in graph.get_operations() for out in op.outputs if not out.shape.is_fully_defined()]
    assert not dynamic
