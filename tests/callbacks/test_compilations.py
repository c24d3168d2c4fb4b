"""The recompile alarm: what was compiled, how often, for which shape; TensorFlow here, JAX in a process of its own."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import keras
import numpy as np
import pytest
from PIL import Image

import unetkit
from unetkit.callbacks import RecompileAlarm
from unetkit.compilations import Compilations
from unetkit.errors import LimitError


def model() -> keras.Model:
    made = keras.Sequential([keras.Input((None, 1)), keras.layers.Conv1D(1, 3, padding="same")])
    made.compile("sgd", "mse")
    return made


def data(rows: int, length: int = 4) -> np.ndarray:
    return np.ones((rows, length, 1), "float32")


def compile_it(function):
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function)


class Careless(keras.callbacks.Callback):
    """Sends arrays of two shapes through a function that has the name of one of the engine's."""

    def on_epoch_end(self, epoch, logs=None):
        @compile_it
        def predict_step(x):
            return x + 1

        for length in (3, 4):
            predict_step(np.ones(length, "float32"))


def check_a_function() -> None:
    @compile_it
    def doubled(x):
        return x * 2

    with Compilations() as seen:
        for length in (3, 4, 3, 4):
            doubled(np.ones(length, "float32"))
    assert seen.counts() == {"doubled": 2} and [one.shapes for one in seen.seen] == [("float32[3]",), ("float32[4]",)]
    assert str(seen) == "doubled: 2 (float32[4])"
    with pytest.raises(LimitError, match=r"doubled was compiled a second time, for float32\[4\]; the first time was for float32\[3\]"):
        seen.require_one_each()
    doubled(np.ones(5, "float32"))
    assert len(seen.seen) == 2, "what happens later is not counted"


def check_a_fit() -> None:
    trained = model()
    quiet = RecompileAlarm()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained.fit(data(8), data(8), batch_size=4, epochs=2, verbose=0, callbacks=[quiet])
    assert set(quiet.compilations.counts().values()) == {1}
    longer = data(8, length=6)
    with pytest.warns(UserWarning, match=r"RecompileAlarm: .*step.* was compiled 2 times"):
        trained.fit(longer, longer, batch_size=4, verbose=0, callbacks=[quiet])
    strict, trained = RecompileAlarm(error=True), model()
    trained.fit(data(8), data(8), batch_size=4, verbose=0, callbacks=[strict])
    with pytest.raises(LimitError, match=r"step.* was compiled a second time, for .*; the first time was for "):
        trained.fit(longer, longer, batch_size=4, verbose=0, callbacks=[strict])


def check_a_run(folder: Path) -> None:
    """A last call of fewer steps than the others, pictures of other sizes: one shape all the same."""
    recipe = {
        "name": "tiny",
        "backend": keras.backend.backend(),
        "data": {"source": "emoji", "size": 16, "input_channels": 1, "split": {"validation": 0.01, "limit": 40}},
        "model": {"levels": [4, 8], "norm": "none"},
        "training": {"images": 40, "batch": 8, "steps_per_call": 2},
        "logging": {"samples": {"count": 3}},
    }
    with Compilations({"train_step", "predict_step"}) as seen:
        unetkit.fit(recipe, run=folder / "run", progress=False, no_recompile=True)
    assert seen.counts() == {"train_step": 1, "predict_step": 1}
    with pytest.raises(LimitError, match="predict_step was compiled a second time"):
        unetkit.fit(recipe, run=folder / "careless", progress=False, callbacks=[Careless()], no_recompile=True)
    assert unetkit.fit(recipe, run=folder / "careless", progress=False).status == "done", "the same call without it goes on"
    Image.new("L", (40, 23)).save(folder / "in.png")
    Image.new("L", (5, 9)).save(folder / "small.png")
    with Compilations({"forward"}) as seen:
        unetkit.generate(folder / "run", [folder / "in.png", folder / "small.png"], folder / "out", no_recompile=True, progress=False)
    assert seen.counts() == {"forward": 1}


def test_a_run_and_its_pictures(tmp_path):
    check_a_run(tmp_path)


def test_a_compiled_function():
    check_a_function()


def test_a_fit():
    check_a_fit()


def test_only_named_functions_are_counted():
    with Compilations({"another"}) as seen:
        model()(data(2))
    assert seen.seen == [] and str(seen) == "nothing compiled"
    seen.require_one_each()


def test_jax_tells_the_same(tmp_path):
    env = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run([sys.executable, __file__, str(tmp_path)], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


if __name__ == "__main__":
    assert keras.backend.backend() == "jax"
    check_a_function()
    check_a_fit()
    check_a_run(Path(sys.argv[1]))
