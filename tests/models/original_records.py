"""Reads the golden records of the original network, and compares ours with them on whichever Keras backend is in use."""

import json
from pathlib import Path

import keras
import numpy as np
from keras import ops

from unetkit.models import load_original_weights, original_unet

RECORDS = sorted((Path(__file__).parents[1] / "golden" / "seed_unet").glob("*.npz"))
ARGUMENTS = ("start_ch", "depth", "inc_rate", "dropout", "batchnorm", "maxpool", "upconv", "residual", "leaky_relu_alpha")


def variables_of(record) -> list[np.ndarray]:
    return [record[f"var{number:03d}"] for number in range(len(record["variable_names"]))]


def model_of(record, packing=()) -> keras.Model:
    config = json.loads(str(record["config"]))
    model = original_unet((config["h"], config["w"], config["c"]), packing=packing, **{name: config[name] for name in ARGUMENTS})
    load_original_weights(model, variables_of(record))
    return model


def loss_and_gradients(model: keras.Model, x: np.ndarray, target: np.ndarray):
    """Output, mean squared error and its gradients by the trainable weights, without training."""
    if keras.backend.backend() == "jax":
        import jax

        def loss(trainable, other):
            y, _ = model.stateless_call(trainable, other, x, training=False)
            return ops.mean(ops.square(y - target)), y

        states = [v.value for v in model.trainable_variables], [v.value for v in model.non_trainable_variables]
        (mse, y), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(*states)
        return np.asarray(y), float(mse), [np.asarray(g) for g in gradients]
    import tensorflow as tf

    with tf.GradientTape() as tape:
        y = model(tf.constant(x), training=False)
        mse = tf.reduce_mean(tf.square(y - target))
    gradients = tape.gradient(mse, [v.value for v in model.trainable_variables])
    return y.numpy(), float(mse), [g.numpy() for g in gradients]


def check_record(path: Path, packing=()) -> None:
    """Outputs agree to 1e-5, the loss and every gradient to 1e-4 relative."""
    record = np.load(path)
    model = model_of(record, packing)
    y, mse, gradients = loss_and_gradients(model, record["x"], record["target"])
    assert np.abs(y - record["y"]).max() < 1e-5
    assert abs(mse - float(record["mse"])) < 1e-5
    assert len(gradients) == len(record["trainable_names"])
    for number, (gradient, weight) in enumerate(zip(gradients, model.trainable_variables, strict=True)):
        expected = record[f"grad{number:03d}"]
        error = np.abs(gradient - expected).max() / np.abs(expected).max()
        assert error < 1e-4, f"{path.name}: the gradient of {weight.path} is {error:.1e} off"
