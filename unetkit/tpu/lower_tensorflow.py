"""The child that builds a recipe's model with Keras on TensorFlow and lowers one replica's training step. Started by `lower.py`.

TensorFlow's bridge turns the step into HLO on the CPU, as one replica runs it: the reduction over replicas is not in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from unetkit import build
from unetkit.recipe import read
from unetkit.tpu.lower_tools import owners, packing_text, serve
from unetkit.train.engines.tensorflow import TensorFlowEngine
from unetkit.train.plan import make_plan


def main(folder: str) -> None:
    serve(folder, {"recipe": lower_recipe})


def lower_recipe(asked: dict[str, Any], replicas: int, file: Path) -> dict[str, Any]:
    """Lowers the TensorFlow engine's step for a recipe, as one of the replicas runs it."""
    recipe, batch = read(asked["recipe"]), asked["batch"]
    accumulate = recipe.training.accumulate
    build.check_batch(batch, accumulate, replicas)
    goal = build.objective(recipe, build.network(recipe))
    optimizers = build.optimizers(recipe, goal, make_plan(recipe, train_images=batch))
    engine = TensorFlowEngine(goal, optimizers, build.options(recipe, jit=True), tf.distribute.get_strategy())
    net = goal.networks[goal.main]
    rows = batch // accumulate // replicas
    shapes = goal.batch_shapes()
    specs = [tf.TensorSpec((1, accumulate, rows, *shape), tf.float32, name) for name, shape in shapes.items()]
    specs.append(tf.TensorSpec((), tf.int64, "number"))
    engine.names = engine._log_names({name: tf.zeros(spec.shape) for name, spec in zip(shapes, specs, strict=False)})

    @tf.function(jit_compile=True, autograph=False)
    def train_step(*arguments):
        *data, number = arguments
        return engine._replica_step(dict(zip(shapes, data, strict=True)), tf.constant(0), number)

    concrete = train_step.get_concrete_function(*specs)
    code = train_step.experimental_get_compiler_ir(*specs)(stage="hlo_serialized")
    file.write_bytes(code)
    made = [op.outputs[0].shape for op in concrete.graph.get_operations() if op.type.startswith("Conv2D")]
    return {
        "program": {
            "file": file.name,
            "format": "hlo",
            "convolutions": len(made),
            "convolution_elements": sum(shape.num_elements() or 0 for shape in made if shape.rank is not None),
        },
        "name": recipe.name,
        "layers": sorted({layer.name for network in goal.networks.values() for layer in network._flatten_layers(include_self=False)}),
        "image": list(net.inputs[0].shape[1:-1]),
        "accumulation": accumulate,
        "precision": recipe.training.precision,
        "remat": recipe.training.remat,
        "lowering": recipe.model.lowering,
        "packing": packing_text(recipe.model.packing),
        "global_batch": batch,
        "arguments": arguments(concrete, goal, optimizers, list(shapes)),
        "versions": {"keras": keras.__version__, "tensorflow": tf.__version__},
    }


def arguments(concrete, goal, optimizers, inputs: list[str]) -> dict[str, Any]:
    """What each parameter of the program is, by number: the function's arguments, then the variables it captures."""
    known: dict[int, dict[str, Any]] = {}
    for role, network in goal.networks.items():
        weights = network.trainable_variables
        for kind, variables in (("weight", weights), ("other", network.non_trainable_variables), ("optimizer", optimizers[role].variables)):
            for variable, path in zip(variables, owners(variables, weights), strict=True):
                known[id(variable.value.handle)] = {"kind": kind, "path": path}
    named = [{"kind": "input", "path": name} for name in inputs] + [{"kind": "other", "path": "number"}]
    named += [known.get(id(captured), {"kind": "other", "path": None}) for captured in concrete.captured_inputs]
    return {f"#{number}": what for number, what in enumerate(named)}
