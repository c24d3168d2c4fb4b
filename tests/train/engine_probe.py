"""Child process of the engine tests: trains a tiny net for each line of JSON on standard input and answers with a line.

A process of its own because the Keras backend and the number of virtual CPUs are fixed once per process; one process for
many questions because importing an engine takes longer than training the net.
"""

import contextlib
import json
import sys

import numpy as np

from unetkit import backend as backends
from unetkit.errors import UserError
from unetkit.recipe import schema


def network(dropout: float, batch_norm: bool):
    import keras

    x = inputs = keras.Input((16, 16, 3))
    x = keras.layers.Conv2D(8, 3, padding="same", activation="relu", name="first")(x)
    if batch_norm:
        x = keras.layers.BatchNormalization(name="norm")(x)
    x = keras.layers.Dropout(dropout, name="drop")(x)
    x = keras.layers.Conv2D(3, 3, padding="same", dtype="float32", name="last")(x)
    model = keras.Model(inputs, x)
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(0, 0.2, variable.shape))
    return model


def unet(remat: bool, dropout: float):
    """Blocks with batch norm and dropout, which change variables inside."""
    from unetkit.blocks import rematerialize
    from unetkit.models import UNet, initialize

    model = UNet((16, 16, 3), levels=(4, 8), norm="batch", dropout=dropout)
    initialize(model, 0)
    if remat:
        rematerialize(model)
    return model


def noisy(network):
    """An objective that wants noise, to see that replicas share one draw."""
    from keras import ops

    from unetkit.objectives import Objective

    class Noisy(Objective):
        def draws(self, shapes):
            return {"noise": shapes["target"]}

        def losses(self, call, batch, noise):
            error = ops.mean(ops.square(call("model", batch["input"]) - noise["noise"]), axis=(1, 2, 3))
            return {"model": error}, {"loss": error}

    return Noisy({"model": network})


def denoiser(condition: str):
    """A small network with a noise level, and a class or a condition image."""
    import keras

    image = keras.Input((16, 16, 6 if condition == "image" else 3))
    inputs = [image, keras.Input(())] + ([keras.Input(())] if condition == "class" else [])
    x = keras.layers.Conv2D(8, 3, padding="same", name="first")(image)
    for n, number in enumerate(inputs[1:]):
        x = x + keras.layers.Dense(8, name=f"number{n}")(keras.layers.Reshape((1, 1, 1))(number))
    x = keras.layers.Conv2D(3, 3, padding="same", dtype="float32", name="last")(keras.ops.tanh(x))
    model = keras.Model(inputs, x)
    model.classes = 3
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(0, 0.2, variable.shape))
    return model


def goal_of(kind: str, args: dict):
    from unetkit.build import OBJECTIVES
    from unetkit.models import initialize, patch_gan

    if kind == "adversarial":
        judge = patch_gan((16, 16, 6), receptive_field=16, channels=4, spectral_norm=args.get("loss") == "hinge")
        initialize(judge, 0)
        return OBJECTIVES[kind](network(0.0, False), judge, **args)
    return OBJECTIVES[kind](denoiser(args.get("condition", {"flow": "image"}.get(kind, "none"))), **args)


def answer(asked: dict) -> None:
    backends.select(asked["backend"])
    from unetkit.build import dtype_policy
    from unetkit.objectives import Translation
    from unetkit.train.devices import open_devices
    from unetkit.train.engines.base import Options
    from unetkit.train.optimizers import make_optimizer

    devices = open_devices(schema.Hardware(device="cpu", replicas=asked.get("replicas", 1)), asked["backend"])
    if asked["backend"] == "jax":
        from unetkit.train.engines.jax import JaxEngine as Chosen
    else:
        from unetkit.train.engines.tensorflow import TensorFlowEngine as Chosen
    steps, per_call, batch = asked.get("steps", 6), asked.get("steps_per_call", 4), 8
    scope = devices.handle.scope() if asked["backend"] == "tensorflow" else contextlib.nullcontext()
    precision = asked.get("precision", "float32")
    with scope, dtype_policy(precision):
        made = goal_of(*asked["objective"]) if "objective" in asked else None
        model = (
            made.networks["model"]
            if made
            else unet(asked["remat"], asked.get("dropout_rate", 0.3))
            if "remat" in asked
            else network(asked.get("dropout", 0.0), asked.get("batch_norm", False))
        )
        section = schema.AdamW(learning_rate=1e-2, schedule="cosine", warmup_images=16, weight_decay=0.01, clip_norm=0.5)
        if asked.get("sgd"):
            section = schema.Sgd(learning_rate=0.1)
        if asked.get("lookahead"):
            section = schema.Lookahead(inner="rectified_adam", learning_rate=1e-2, weight_decay=0.01, clip_norm=0.5, sync_period=2)
        goal = made or (noisy(model) if asked.get("noisy") else Translation(model, asked.get("loss", "l1")))
        optimizers = {
            role: make_optimizer(section, net.trainable_variables, batch=batch, images=batch * steps, precision=precision)
            for role, net in goal.networks.items()
        }
    options = Options(
        seed=1,
        global_batch=batch,
        accumulate=asked.get("accumulate", 1),
        steps_per_call=per_call,
        ema=0.9,
        ema_warmup=asked.get("ema_warmup"),
        jit=asked.get("jit", False),
        precision=precision,
        sync_batch_norm=asked.get("sync_batch_norm", True),
    )
    engine = Chosen(goal, optimizers, options, devices.handle)
    rng = np.random.default_rng(3)
    batches = [{name: rng.normal(0, 0.5, (batch, 16, 16, 3)).astype(np.float32) for name in ("input", "target")} for _ in range(steps)]
    for b in batches:
        b["label"] = rng.integers(0, 3, batch).astype(np.float32)
        b["target"][-1] += 3.0  # most of the error in the last replica's share: a loss read from the first one would show
    if asked.get("error_in_last"):  # and here all of it
        batches[0]["target"][:-1] = engine.predict(batches[0]["input"])[:-1]
    rows = asked.get("rows", 3)
    few = {name: value[:rows] for name, value in batches[0].items()}
    looked = {}
    if "objective" in asked and asked.get("look", True):  # before training, while the weights are alike everywhere
        looked = {"looked": engine.predict(few, numbers=range(rows)), "measured": engine.measure(batches[0], range(batch))["loss"]}
    stop = asked.get("stop", steps)
    first = 0
    if "load" in asked:
        with np.load(asked["load"]) as file:
            saved = {name: file[name] for name in file.files}
        engine.load(
            {g: {n.split(":", 1)[1]: v for n, v in saved.items() if n.startswith(g + ":")} for g in ("weights", "ema", "optimizer")}
        )
        first = int(saved["steps"])
    losses: list[float] = []
    while first < stop:
        count = min(per_call, stop - first)
        losses += list(engine.run(batches[first : first + count], first)["loss"])
        first += count
    arrays = {f"{group}:{name}": value for group, named in engine.state().items() for name, value in named.items()}
    prediction, raw = (engine.predict(few, average, range(rows)) for average in (True, False)) if asked.get("look", True) else (0, 0)
    np.savez(asked["out"], loss=np.array(losses), steps=first, **looked, prediction=prediction, raw=raw, **arrays)


if __name__ == "__main__":
    for line in sys.stdin:
        try:
            answer(json.loads(line))
        except UserError as error:
            print(f"refused {error}")
        print("done", flush=True)
