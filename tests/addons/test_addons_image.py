"""Image operations beyond the records: every rank and dtype, identities, and bad arguments."""

import keras
import numpy as np
import pytest

from unetkit.addons import image
from unetkit.errors import UserError

IMAGE = np.random.default_rng(0).uniform(0, 255, (2, 9, 7, 3)).astype("float32")
OPERATIONS = {
    "mean": image.mean_filter2d,
    "median": image.median_filter2d,
    "gaussian": image.gaussian_filter2d,
    "sharpness": lambda x: image.sharpness(x, 1.5),
    "rotate": lambda x: image.rotate(x, 0.4, "bilinear"),
    "translate": lambda x: image.translate(x, [1, -1]),
}


def numbers(x):
    return keras.ops.convert_to_numpy(x)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_one_image_is_a_batch_of_one_and_grey_has_no_channels(operation):
    batch = numbers(operation(IMAGE))
    np.testing.assert_allclose(numbers(operation(IMAGE[1])), batch[1], atol=1e-4)
    np.testing.assert_allclose(numbers(operation(IMAGE[1, ..., 2])), batch[1, ..., 2], atol=1e-4)


@pytest.mark.parametrize("dtype", ["uint8", "float32", "bfloat16"])
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_shape_and_dtype_stay(operation, dtype):
    result = operation(keras.ops.cast(IMAGE, dtype))
    assert (keras.backend.standardize_dtype(result.dtype), tuple(result.shape)) == (dtype, IMAGE.shape)


def test_identities():
    np.testing.assert_array_equal(numbers(image.median_filter2d(IMAGE, 1)), IMAGE)
    np.testing.assert_array_equal(numbers(image.sharpness(IMAGE, 1)), IMAGE)
    np.testing.assert_allclose(numbers(image.dense_image_warp(IMAGE, np.zeros((2, 9, 7, 2), "float32"))), IMAGE, atol=1e-4)
    quarter = numbers(image.rotate(IMAGE[:, :7], np.pi / 2, "bilinear"))
    np.testing.assert_allclose(quarter, np.rot90(IMAGE[:, :7], axes=(1, 2)), atol=1e-2)


def test_a_flow_outside_takes_the_nearest_pixel():
    down = np.zeros((2, 9, 7, 2), "float32")
    down[..., 0] = 100
    np.testing.assert_allclose(numbers(image.dense_image_warp(IMAGE, down)), np.repeat(IMAGE[:, :1], 9, axis=1), atol=1e-4)


def test_a_gradient_reaches_image_and_flow_of_the_warp():
    import tensorflow as tf

    x, flow = tf.constant(IMAGE), tf.fill((2, 9, 7, 2), 0.3)
    with tf.GradientTape() as tape:
        tape.watch((x, flow))
        total = tf.reduce_sum(image.dense_image_warp(x, flow) ** 2)
    assert all(np.abs(g.numpy()).max() > 0 for g in tape.gradient(total, (x, flow)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: image.mean_filter2d(IMAGE, padding="same"), "padding='same' is not one of REFLECT"),
        (lambda: image.median_filter2d(IMAGE, (3, 0)), r"filter_shape=\(3, 0\)"),
        (lambda: image.gaussian_filter2d(IMAGE, 3, -1.0), "sigma=-1.0"),
        (lambda: image.rotate(np.zeros(4, "float32"), 1.0), r"this has the shape \(4,\)"),
        (lambda: image.cutout(IMAGE, (3, 4)), "must be even"),
        (lambda: image.cutout(IMAGE[0], 4), r"takes images \(b, h, w, c\)"),
        (lambda: image.dense_image_warp(IMAGE, np.zeros((2, 9, 7, 3))), r"and a flow \(b, h, w, 2\)"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(UserError, match=message):
        call()
