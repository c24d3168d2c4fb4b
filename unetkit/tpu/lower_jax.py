"""The child that builds a model with Keras on JAX and lowers its training step for a TPU. Started by `lower.py`.

Nothing is computed: the model is built and the step traced on shapes alone, over a mesh of devices that need not exist, so
this takes seconds, no accelerator and no libtpu.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import keras

from unetkit import build
from unetkit.recipe import read
from unetkit.tpu import serial
from unetkit.tpu.lower_tools import owners, packing_text, serve
from unetkit.train.engines import jax as engine
from unetkit.train.plan import make_plan

TPU = ("tpu",)


def main(folder: str) -> None:
    jax.config.update("jax_traceback_in_locations_limit", 0)  # a program must not change with the line that made it
    serve(folder, {"recipe": lower_recipe, "keras": lower_keras})


def lower_recipe(asked: dict[str, Any], replicas: int, file: Path) -> dict[str, Any]:
    """Lowers the trainer's own step for a recipe; returns its entry of `lowered.json`."""
    recipe, batch = read(asked["recipe"]), asked["batch"]
    build.check_batch(batch, recipe.training.accumulate, replicas)
    options = build.options(recipe, jit=True)
    parts: dict[str, Any] = {}

    def make():
        goal = build.objective(recipe, build.network(recipe))
        parts.update(goal=goal, optimizers=build.optimizers(recipe, goal, make_plan(recipe, train_images=batch)))
        return engine.initial_state(goal, parts["optimizers"], options)

    state = abstractly(make)
    goal, optimizers = parts["goal"], parts["optimizers"]
    net = goal.networks[goal.main]
    shapes = goal.batch_shapes()
    mesh = jax.sharding.AbstractMesh((replicas,), (engine.AXIS,))
    arguments = engine.abstract_arguments(state, shapes, options, mesh)
    step = engine.jitted(goal, optimizers, options)
    named = {
        f"state[{group!r}][{role!r}][{index}]": {"kind": kind, "path": path}
        for group, kind, of in (
            ("trainable", "weight", lambda role: goal.networks[role].trainable_variables),
            ("other", "other", lambda role: goal.networks[role].non_trainable_variables),
            ("optimizer", "optimizer", lambda role: optimizers[role].variables),
            ("average", "weight", lambda role: goal.networks[role].trainable_variables),
        )
        for role in state[group]
        for index, path in enumerate(owners(of(role), goal.networks[role].trainable_variables))
    }
    named |= {f"batch['{name}']": {"kind": "input", "path": name} for name in shapes}
    return {
        "name": recipe.name,
        "image": list(net.inputs[0].shape[1:-1]),
        "accumulation": recipe.training.accumulate,
        "precision": recipe.training.precision,
        "remat": recipe.training.remat,
        "lowering": recipe.model.lowering,
        "packing": packing_text(recipe.model.packing),
        **lowered_entry(step, arguments, file, replicas, batch, named),
    }


def lower_keras(asked: dict[str, Any], replicas: int, file: Path) -> dict[str, Any]:
    """Lowers the step that Keras' own `fit` runs on JAX."""
    batch = asked["batch"]
    build.check_batch(batch, 1, replicas)
    parts: dict[str, Any] = {}

    def make():
        model, data = serial.rebuild(asked, batch)
        parts.update(model=model, data=data)
        groups = (model.trainable_variables, model.non_trainable_variables, model.optimizer.variables, model.metrics_variables)
        return tuple([v.value for v in group] for group in groups)

    state = abstractly(make)
    model = parts["model"]
    mesh = jax.sharding.AbstractMesh((replicas,), (engine.AXIS,))
    whole, rows = (jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)) for axes in ((), (engine.AXIS,)))
    abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=whole), state)
    data = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=rows), parts["data"])

    def train_step(state, data):
        return model.train_step(state, data)

    groups = {
        0: ("weight", model.trainable_variables),
        1: ("other", model.non_trainable_variables),
        2: ("optimizer", model.optimizer.variables),
        3: ("other", model.metrics_variables),
    }
    named = {
        f"state[{group}][{index}]": {"kind": kind, "path": path}
        for group, (kind, variables) in groups.items()
        for index, path in enumerate(owners(variables, model.trainable_variables))
    }
    named |= {jax.tree_util.keystr(path): {"kind": "input"} for path, _ in jax.tree_util.tree_leaves_with_path({"data": data})}
    named |= {f"data{jax.tree_util.keystr(path)}": {"kind": "input"} for path, _ in jax.tree_util.tree_leaves_with_path(data)}
    sample = jax.tree.leaves(data)[0].shape[1:]
    return {
        "name": model.name,
        "image": list(sample[:-1]),
        "accumulation": 1,
        "precision": model.dtype_policy.name,
        **lowered_entry(jax.jit(train_step, donate_argnums=0), (abstract, data), file, replicas, batch, named),
    }


def abstractly(make: Callable[[], Any]) -> Any:
    """What `make()` returns, as shapes. Its variables are never given memory, unless its code insists on their values."""
    try:
        return jax.eval_shape(make)
    except jax.errors.JAXTypeError:
        keras.backend.clear_session()
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), make())


def lowered_entry(step, arguments, file: Path, replicas: int, batch: int, named: dict[str, Any]) -> dict[str, Any]:
    lowered = step.trace(*arguments).lower(lowering_platforms=TPU)
    code = io.BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(code)
    file.write_bytes(code.getvalue())
    made = re.findall(r"stablehlo\.convolution.*-> tensor<([\dx]+)x", lowered.as_text())
    elements = sum(math.prod(map(int, shape.split("x"))) for shape in made) // replicas
    return {
        "program": {
            "file": file.name,
            "format": "stablehlo",
            "partitions": replicas,
            "convolutions": len(made),
            "convolution_elements": elements,
        },
        "global_batch": batch,
        "arguments": named,
        "versions": {"keras": keras.__version__, "jax": jax.__version__},
    }
