"""TensorFlow's step as TPUStrategy would run it: one replica's part, with the loop over steps inside, for every objective and up-sampler.

`strategy.run` itself needs a TPU. What it would hand to the compiler is compiled here for three TPUs.
"""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from unetkit import build
from unetkit import recipe as recipes
from unetkit.recipe import schema
from unetkit.tpu import ask
from unetkit.tpu.chips import chip
from unetkit.tpu.environment import CompilerMissing, find_interpreter
from unetkit.train.engines.tensorflow import TensorFlowEngine
from unetkit.train.plan import make_plan

OPS = Path(__file__).parent / "records" / "tpu_ops.txt"
STEPS, ROWS = 3, 2
MODELS = {
    "nearest_conv": {"levels": [4, 8], "up": "nearest_conv", "dropout": 0.1, "groups": 2},
    "transposed_conv": {"levels": [4, {"channels": 8, "attention": True}], "up": "transposed_conv", "norm": "batch", "heads": 2},
    "bilinear_conv": {"levels": [4, 8], "up": "bilinear_conv", "norm": "none"},
    "packed": {"levels": [4, 8], "norm": "none", "down": "strided_conv", "lowering": "packed", "packing": [[2, 4], [1, 2]]},
}
# (objective, model): every objective once, every up-sampler once.
CASES = [(kind, "nearest_conv") for kind in build.OBJECTIVES]
CASES += [("translation", model) for model in ("transposed_conv", "bilinear_conv", "packed")]
# Each takes seconds: the oldest chip sees all of them, the newest every objective, the one between every up-sampler.
COMPILED = [("v2-8", case) for case in CASES]
COMPILED += [("v5e-8", case) for case in CASES if case[1] == "nearest_conv"]
COMPILED += [("v3-8", case) for case in CASES if case[0] == "translation" and case[1] != "packed"]


def step(objective: str, model: str):
    """The function that each replica of a TPU runs, traced at its static shapes, and its shapes."""
    denoises = {"block": "modulated", "output_activation": "linear"} if objective in ("flow", "diffusion") else {}
    recipe = recipes.read(
        {
            "name": "tiny",
            "data": {"source": "emoji", "size": 16},
            "model": {**MODELS[model], **denoises},
            "objective": {"kind": objective},
            "optimizer": {"name": "adamw", "clip_norm": 1.0, "schedule": "cosine"},
            "training": {"batch": 8 * ROWS * 2, "epochs": 1, "ema": 0.9, "accumulate": 2, "steps_per_call": STEPS},
        }
    )
    goal = build.objective(recipe, build.network(recipe))
    optimizers = build.optimizers(recipe, goal, make_plan(recipe, 64))
    engine = TensorFlowEngine(goal, optimizers, build.options(recipe, jit=True), tf.distribute.get_strategy())
    shapes = goal.batch_shapes()
    specs = [tf.TensorSpec((STEPS, 2, ROWS, *shape), tf.float32, name) for name, shape in shapes.items()]
    engine.names = engine._log_names({name: tf.zeros(spec.shape) for name, spec in zip(shapes, specs, strict=True)})

    @tf.function(jit_compile=True, autograph=False)
    def run(*arguments):
        *data, first, count = arguments
        return engine.replica_steps(dict(zip(shapes, data, strict=True)), first, count)

    return run, [*specs, tf.TensorSpec((), tf.int64, "first"), tf.TensorSpec((), tf.int32, "count")], engine


@pytest.fixture(scope="module")
def traced():
    made = {}

    def of(case):
        if case not in made:
            run, specs, engine = step(*case)
            made[case] = run, specs, run.get_concrete_function(*specs), engine
        return made[case]

    return of


def supported() -> set[str]:
    return {name for line in OPS.read_text().splitlines() if not line.startswith("#") for name in line.split("  #")[0].split()}


def graphs(graph) -> list:
    """A function's graph and those of the functions in it, as loop bodies."""
    inside = [made.graph for made in graph._functions.values() if getattr(made, "graph", None) is not None]
    return [graph, *(found for inner in inside for found in graphs(inner))]


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_the_step_has_no_dynamic_dimension_and_only_ops_that_tpus_support(traced, case):
    _, _, concrete, _ = traced(case)
    definition = concrete.graph.as_graph_def()
    used = {node.op for node in definition.node} | {node.op for f in definition.library.function for node in f.node_def}
    calls = {"PartitionedCall", "StatefulPartitionedCall", "Placeholder", "While", "StatelessWhile"}
    assert {"Conv2D", "Conv2DBackpropFilter"} <= used
    assert not used - supported() - calls
    loose = [
        f"{op.name}: {output.shape}"
        for graph in graphs(concrete.graph)
        for op in graph.get_operations()
        for output in op.outputs
        if output.dtype not in (tf.resource, tf.variant) and not output.shape.is_fully_defined()
        if "redundant_placeholder" not in op.name  # of a loop's condition: stands for what only the body reads
    ]
    assert not loose, loose[:5]


def test_the_loop_inside_computes_what_the_loop_outside_does(traced):
    _, specs, concrete, engine = traced(CASES[0])
    rng = np.random.default_rng(0)
    data = [rng.normal(0, 0.5, spec.shape).astype(np.float32) for spec in specs[:-2]]
    names = [spec.name for spec in specs[:-2]]
    before = {group: {name: v.numpy() for name, v in named.items()} for group, named in engine.variables().items()}
    table = concrete(*map(tf.constant, data), tf.constant(0, tf.int64), tf.constant(STEPS - 1)).numpy()
    inside = {name: v.numpy() for name, v in engine.variables()["weights"].items()}
    engine.load(before)
    batches = [{name: whole[i].reshape(-1, *whole.shape[3:]) for name, whole in zip(names, data, strict=True)} for i in range(STEPS - 1)]
    outside = engine.run(batches, 0)
    np.testing.assert_allclose(table[: STEPS - 1, engine.names.index("loss")], outside["loss"], rtol=1e-4)
    assert not table[STEPS - 1 :].any()
    for name, variable in engine.variables()["weights"].items():
        np.testing.assert_allclose(inside[name], variable.numpy(), atol=1e-4, err_msg=name)


@pytest.mark.compiler
@pytest.mark.parametrize(("name", "case"), COMPILED, ids=lambda part: part if isinstance(part, str) else "-".join(part))
def test_the_tpu_compiler_takes_the_step(traced, case, name, tmp_path_factory, monkeypatch):
    try:
        find_interpreter()
    except CompilerMissing as missing:
        pytest.skip(str(missing))
    monkeypatch.setenv("UNETKIT_CACHE_DIR", str(tmp_path_factory.mktemp("answers")))
    run, specs, _, _ = traced(case)
    code = run.experimental_get_compiler_ir(*specs)(stage="hlo_serialized")
    record, _ = ask.compile_program(ask.Program(code=code, format="hlo"), chip(name), stage="memory")
    assert record.outcome in ("memory", "compiled"), record.message
    assert record.buffers


def test_every_upsampler_of_the_recipe_is_among_the_cases():
    from typing import get_args, get_type_hints

    ups = get_args(get_type_hints(schema.UNet)["up"])
    assert {MODELS[model].get("up", "nearest_conv") for _, model in CASES} == set(ups)
