"""The same network twice, plain and packed: what they must have in common, on whichever Keras backend is in use.

As a program, with JAX as the Keras backend, it compares every other case of `CASES`.
"""

from collections.abc import Callable, Sequence

import keras
import numpy as np
from keras import ops

from unetkit.models import UNet, initialize
from unetkit.train.step import is_seed

OUTPUT, GRADIENT = 1e-5, 1e-4

CASES = (
    ("constant", [[2, 4], [1, 2]], {"levels": (4, 6), "norm": "none", "activation": "relu", "up": "transposed_conv", "dropout": 0.4}),
    (
        "random",
        [[4, 2], [2, 2]],
        {"levels": (4, {"channels": 8, "attention": True}), "norm": "group", "residual": "concat", "blocks": 2, "heads": 1},
    ),
    ("half", [[1, 2], [2, 1]], {"levels": (4, 6), "norm": "batch", "residual": "add", "down": "strided_conv", "kernel_size": 5}),
    ("random", [[2, 2]], {"levels": (4, 6), "norm": "layer", "norm_first": False, "activation": "softmax", "up_kernel_size": 2}),
)


def images(shape: Sequence[int], kind: str) -> np.ndarray:
    """Two images: random, constant (every max-pool is a tie), or zero in their upper half."""
    x = np.random.default_rng(0).normal(size=(2, *shape)).astype("float32")
    if kind == "constant":
        return np.full_like(x, 0.5)
    if kind == "half":
        x[:, : shape[0] // 2] = 0
    return x


def pair(packing, shape: Sequence[int], make: Callable = UNet, **settings) -> tuple[keras.Model, keras.Model]:
    """The network plain and packed, with the same weights."""
    plain, packed = make(shape, **settings), make(shape, packing=packing, **settings)
    initialize(plain, 1)
    initialize(packed, 1)
    return plain, packed


def run(model: keras.Model, x: np.ndarray, training: bool):
    """Output, its gradients by image and weights in a weighted sum, and the new values of the other variables."""
    mix = np.random.default_rng(2).normal(size=(len(x), *model.output_shape[1:])).astype("float32")
    trainable = [ops.convert_to_tensor(v.value) for v in model.trainable_variables]
    other = [ops.full(v.shape, 7, v.dtype) if is_seed(v) else v.value for v in model.non_trainable_variables]

    def loss(x, trainable):
        y, changed = model.stateless_call(trainable, other, x, training=training)
        return ops.sum(y * mix), (y, changed)

    if keras.backend.backend() == "jax":
        import jax

        (_, (y, changed)), (by_image, by_weight) = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))(x, trainable)
    else:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            image = tf.constant(x)
            tape.watch([image, *trainable])
            total, (y, changed) = loss(image, trainable)
        by_image, by_weight = tape.gradient(total, (image, trainable))
    numbers = [np.asarray(value) for value in (*by_weight, *changed)]
    return np.asarray(y), np.asarray(by_image), numbers


def check(packing, shape: Sequence[int], kind: str = "random", training: bool = False, make: Callable = UNet, **settings) -> None:
    """Asserts that plain and packed give the same outputs, gradients and moving statistics."""
    plain, packed = pair(packing, shape, make, **settings)
    named, again = ([(v.path, tuple(v.shape)) for v in model.weights] for model in (plain, packed))
    assert again == named
    x = images(shape, kind)
    expected, found = run(plain, x, training), run(packed, x, training)
    assert np.abs(found[0] - expected[0]).max() < OUTPUT
    # Equal pixels convolved in another order differ in their last digit, so a max-pool may choose another one of them. What its
    # choice does to the weights is the same; pixels that are exactly zero are ties in any order.
    if kind != "constant":
        assert difference(found[1], expected[1]) < GRADIENT, "the gradient by the image"
    paths = [v.path for v in (*plain.trainable_variables, *plain.non_trainable_variables)]
    scale = max(np.abs(value).max() for value in expected[2][: len(plain.trainable_variables)])
    for path, one, other in zip(paths, found[2], expected[2], strict=True):
        # a bias before a norm has no gradient but rounding
        assert np.abs(other).max() < 1e-5 * scale or difference(one, other) < GRADIENT, path


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    return np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30)


if __name__ == "__main__":
    assert keras.backend.backend() == "jax"
    for kind, packing, settings in CASES[::2]:  # compiling them takes most of the time
        check(packing, (8, 8, 3), kind, training=True, **settings)
