"""The child process of `unetkit bench shapes`: one engine, every way, every length. Reads a JSON question, prints a JSON answer."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from unetkit.bench.network import plain_unet
from unetkit.compiled import state_of
from unetkit.inference.tiled import Tiled


def ways(model: keras.Model, tile: int) -> dict[str, Callable[[np.ndarray], Any]]:
    """Name -> function of one signal or image (…, c), each with nothing compiled yet."""
    tiled = Tiled(model, tile)
    if keras.backend.backend() == "jax":
        import jax

        state = state_of(model)
        whole = jax.jit(lambda x: model.stateless_call(*state, x, training=False)[0])
        return {"jax.jit": lambda x: np.asarray(whole(x[None])), "Tiled (JAX)": tiled}
    import tensorflow as tf

    strict, relaxed = (tf.function(lambda x: model(x, training=False), reduce_retracing=loose) for loose in (False, True))
    return {
        "eager": lambda x: model(x[None], training=False).numpy(),
        "tf.function": lambda x: strict(tf.constant(x[None])).numpy(),
        "tf.function, relaxed": lambda x: relaxed(tf.constant(x[None])).numpy(),
        "Tiled (TensorFlow)": tiled,
    }


def device() -> str:
    if keras.backend.backend() == "jax":
        import jax

        return jax.devices()[0].platform
    import tensorflow as tf

    return "gpu" if tf.config.list_logical_devices("GPU") else "cpu"


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """{engine, device, ways: name -> [{length, first_s, repeat_s}]}; a repeat is the fastest of `repeats`."""
    model = plain_unet(question["rank"], question["channels"])
    channels = model.input_shape[-1]
    rng = np.random.default_rng(0)
    measured: dict[str, list[dict[str, float]]] = {}
    for name, run in ways(model, question["tile"]).items():
        rows = measured[name] = []
        for length in question["lengths"]:
            x = rng.normal(size=(*(length,) * question["rank"], channels)).astype("float32")
            seconds = []
            for _ in range(1 + question["repeats"]):
                started = time.perf_counter()
                run(x)
                seconds.append(time.perf_counter() - started)
            rows.append({"length": length, "first_s": seconds[0], "repeat_s": min(seconds[1:])})
    return {"engine": keras.backend.backend(), "device": device(), "ways": measured}


def main() -> None:
    """Answers the question on standard input."""
    print(json.dumps(answer(json.load(sys.stdin))))
