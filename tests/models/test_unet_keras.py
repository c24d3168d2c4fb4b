"""A U-Net is an ordinary Keras model: it compiles, fits, saves, loads elsewhere, and keeps float32 where it must."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from unetkit.blocks import ConvBlock
from unetkit.blocks.precision import dtype_policy
from unetkit.models import UNet, initialize, original_unet
from unetkit.testing import compiled

X = np.random.default_rng(0).normal(size=(4, 8, 8, 3)).astype("float32")

NON_DEFAULT = {
    "own-names-and-sizes": {
        "output_channels": 1,
        "levels": (4, {"channels": 8, "blocks": 2, "norm": "none", "dropout": 0.3, "attention": True}),
        "blocks": 1,
        "heads": 2,
        "output_activation": "linear",
        "name": "theirs",
    },
    "leaky-add-strided": {
        "levels": (4, 6),
        "kernel_size": 5,
        "norm": "instance",
        "activation": "leaky_relu",
        "negative_slope": 0.05,
        "residual": "add",
        "down": "strided_conv",
        "up": "transposed_conv",
        "up_kernel_size": 4,
    },
    "batch-concat-dropout": {"levels": (4, 6), "norm": "batch", "norm_first": False, "residual": "concat", "dropout": 0.4, "groups": 2},
    "mixed-precision": {"levels": (4, 8), "norm": "layer", "dtype": "mixed_bfloat16"},
}


def test_compile_and_fit_lower_the_loss():
    model = UNet((8, 8, 3), levels=(4, 8), dropout=0.1)
    initialize(model, 0)
    model.compile(keras.optimizers.Adam(1e-2), "mae", jit_compile=False)
    history = model.fit(X, np.tanh(X), batch_size=2, epochs=8, verbose=0)
    assert history.history["loss"][-1] < 0.8 * history.history["loss"][0]


def test_its_config_makes_the_same_network():
    model = UNet((8, 8, 3), **NON_DEFAULT["leaky-add-strided"])
    again = UNet.from_config(model.get_config())
    assert again.get_config() == model.get_config()
    assert [weight.path for weight in again.weights] == [weight.path for weight in model.weights]


OPEN_ELSEWHERE = """
import json, sys
import numpy as np
import keras, unetkit
from unetkit.compiled import compiled
x = np.load(sys.argv[1] + "/x.npy")
for name in sys.argv[2:]:
    model = keras.models.load_model(f"{sys.argv[1]}/{name}.keras")
    np.save(f"{sys.argv[1]}/{name}.y.npy", compiled(model)(x))
    with open(f"{sys.argv[1]}/{name}.json", "w") as file:
        json.dump([type(model).__name__, model.get_config()], file)
"""


def test_saved_models_open_in_a_process_that_imports_only_keras_and_unetkit(tmp_path):
    models = {name: UNet((8, 8, 3), **arguments) for name, arguments in NON_DEFAULT.items()}
    models["original"] = original_unet((8, 8, 3), start_ch=3, depth=2, leaky_relu_alpha=0.3, batchnorm=True, residual=True, maxpool=False)
    np.save(tmp_path / "x.npy", X)
    for number, (name, model) in enumerate(models.items()):
        initialize(model, number)
        model.save(tmp_path / f"{name}.keras")
    env = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    run = subprocess.run([sys.executable, "-c", OPEN_ELSEWHERE, str(tmp_path), *models], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    for name, model in models.items():
        found, config = json.loads((tmp_path / f"{name}.json").read_text())
        assert found == "UNet"
        assert config == json.loads(json.dumps(model.get_config()))
        assert np.abs(np.load(tmp_path / f"{name}.y.npy") - compiled(model)(X)).max() < (1e-2 if name == "mixed-precision" else 1e-6)


def test_importing_unetkit_before_keras_is_as_good_and_loads_no_keras():
    script = """
import sys
import unetkit
assert "keras" not in sys.modules
import keras
assert keras.saving.get_registered_object("unetkit>UNet").__module__ == "unetkit.models.unet"
"""
    env = {**os.environ, "KERAS_BACKEND": "numpy"}  # the fastest to import
    run = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


class Mine(ConvBlock):
    """A block that no saved file may import by itself."""


def test_a_model_with_a_block_of_ones_own_saves_and_loads(tmp_path):
    model = UNet((8, 8, 3), levels=(4, 8), block=Mine)
    model.save(tmp_path / "mine.keras")
    loaded = keras.models.load_model(tmp_path / "mine.keras")
    assert type(loaded.get_layer("bottom").stack[0]) is Mine
    assert np.allclose(compiled(loaded)(X), compiled(model)(X), atol=1e-6)


def test_weights_move_between_sizes_by_file(tmp_path):
    small, large = (UNet((size, size, 3), levels=(4, 8)) for size in (8, 16))
    small.save_weights(tmp_path / "small.weights.h5")
    large.load_weights(tmp_path / "small.weights.h5")
    assert all(np.array_equal(a, b) for a, b in zip(small.get_weights(), large.get_weights(), strict=True))


@pytest.mark.parametrize("by", ["argument", "global policy"])
def test_mixed_precision_keeps_weights_and_output_in_float32(by):
    if by == "argument":
        model = UNet((8, 8, 3), levels=(4, 8), norm="group", residual="add", dtype="mixed_bfloat16")
    else:
        with dtype_policy("mixed_bfloat16"):
            model = UNet((8, 8, 3), levels=(4, 8), norm="group", residual="add")
    assert {weight.dtype for weight in model.weights} == {"float32"}
    assert {layer.compute_dtype for layer in model.layers if layer.name.startswith(("down", "bottom", "up"))} == {"bfloat16"}
    convs = [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.Conv2D) and not layer.path.startswith("head")]
    assert {layer.compute_dtype for layer in convs} == {"bfloat16"}
    y = model(1000 * X)
    assert keras.backend.standardize_dtype(y.dtype) == "float32"
    assert np.abs(y).max() <= 1
    model.compile("adam", "mae", run_eagerly=True)
    assert np.isfinite(model.fit(X, np.tanh(X), verbose=0).history["loss"]).all()


def test_mixed_precision_stays_near_float32():
    exact, mixed = UNet((8, 8, 3), levels=(4, 8)), UNet((8, 8, 3), levels=(4, 8), dtype="mixed_bfloat16")
    for model in (exact, mixed):
        initialize(model, 0)
    assert 0 < np.abs(compiled(exact)(X) - compiled(mixed)(X)).max() < 0.05
