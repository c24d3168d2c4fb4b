"""The arithmetic model: an answer from layer shapes where no compiler can be had. It says of itself that it is a model.

`estimate_recipe` and `estimate` answer in the same dataclasses as the compiler does. What the model knows is in
`model_graph` (which operations there are), `model_memory` (what they keep), `model_space` (in which layout, and what is made
again) and `model_time`.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from unetkit import __version__
from unetkit.errors import UserError
from unetkit.tpu.answer import Answer, Buffer, Curve, Hbm, Padding, Step
from unetkit.tpu.chips import Chip, chip
from unetkit.tpu.tiles import SUBLANES

if TYPE_CHECKING:
    import keras

    from unetkit.recipe import Recipe
    from unetkit.tpu.model_space import Interval, Timeline

NOTE = "This is unetkit's arithmetic model: layer shapes, tile arithmetic and a few rules. The TPU compiler was not asked."
SMALL_BATCH = (
    "Below 8 images per replica the compiler may cut images into strips and keep copies of both forms, which the model does not know: "
    "it can then be far too low."
)
WITHOUT_DISCRIMINATOR = "The model counts the network that makes images alone: the discriminator's weights and work come on top."
WITHOUT_REMAT = "The model does not know remat: memory and time are those of the same step without it."
SHOWN_BUFFERS, SHOWN_OPERATIONS, SHOWN_POINTS = 60, 40, 600
FOLDED_BELOW = 0.001
"""Buffers below this share of the peak are folded into one row for each kind."""


def estimate_recipe(
    recipe: Recipe, chip_name: str | None = None, batches: Sequence[int] | None = None, *, advise: bool = False
) -> list[Answer]:
    """What the model says about a recipe's training step.

    Args:
        recipe: the recipe.
        chip_name: as v2-8 (None: the recipe's `tpu.chip`).
        batches: global batches (None: the recipe's own).
        advise: also try changes that may help, by asking the model again. A packed network is estimated as the plain one.

    Returns:
        One answer per batch, `source="model"`.

    Raises:
        UserError: no chip, a batch that the replicas cannot share, a model that cannot be built, no Keras engine.
    """
    where = chip(chip_name or recipe.tpu.chip or _no_chip())
    batches = list(batches or [recipe.training.batch])
    found = list(map(estimator(recipe, where, batches[0]), batches))
    return [_advised(recipe, answer) for answer in found] if advise else found


def estimator(recipe: Recipe, where: Chip, batch: int) -> Callable[[int], Answer]:
    """Global batch -> what the model says, for many questions about one recipe: its network is built once.

    Args:
        recipe: the recipe; its own batch does not matter.
        where: the accelerator.
        batch: any global batch that can be shared; the optimizer is made for it.
    """
    _choose_engine(recipe.backend)
    from unetkit import build
    from unetkit.train.plan import make_plan

    training = dataclasses.replace(recipe.training, batch=batch)
    recipe = build.unpacked(dataclasses.replace(recipe, training=training))
    build.check_batch(batch, training.accumulate, where.replicas)
    net = build.network(recipe)
    made = build.optimizers(recipe, build.objective(recipe, net), make_plan(recipe, train_images=batch))
    slots = [variable for optimizer in made.values() for variable in optimizer.variables]

    def estimated(batch: int) -> Answer:
        build.check_batch(batch, training.accumulate, where.replicas)
        answer = _answer(recipe.name, net, slots, where, batch, accumulation=training.accumulate, averaged=training.ema is not None)
        notes = answer.notes if training.remat == "none" else (*answer.notes, WITHOUT_REMAT)
        notes = notes if recipe.objective.kind != "adversarial" else (*notes, WITHOUT_DISCRIMINATOR)
        return dataclasses.replace(answer, precision=training.precision, remat=training.remat, program=recipe.backend, notes=notes)

    return estimated


def _advised(recipe: Recipe, answer: Answer) -> Answer:
    from unetkit.tpu import lower, trials

    def ask(changed: Sequence[Recipe]) -> list[Answer]:
        return [estimate_recipe(one, answer.chip)[0] for one in changed]

    asked = lower.with_batch(recipe, answer.global_batch)
    return dataclasses.replace(answer, advice=trials.tried(trials.changes(asked, answer), answer, ask))


def estimate(
    model: keras.Model, *, chip_name: str, batch: int, optimizer: Any = "adam", input_shapes: Sequence[tuple[int, ...]] | None = None
) -> Answer:
    """What the model says about one training step of any Keras model.

    Args:
        model: the model; it may be compiled or not.
        chip_name: as v2-8.
        batch: global batch.
        optimizer: a Keras optimizer or its name.
        input_shapes: of one sample, one for each input, where the model leaves sizes open.
    """
    import keras

    where = chip(chip_name)
    if batch % where.replicas:
        raise UserError(f"batch: {batch} images cannot be shared evenly by the {where.replicas} replicas of a {where.name}")
    made = keras.optimizers.get(keras.optimizers.serialize(keras.optimizers.get(optimizer)))
    made.build(model.trainable_variables)
    return _answer(model.name, model, made.variables, where, batch, input_shapes=input_shapes)


def _no_chip() -> str:
    raise UserError("No accelerator was named (--chip, or tpu.chip in the recipe), as v2-8")


def _choose_engine(wanted: str) -> None:
    """Lets Keras load with whichever engine is here: shapes are the same on all of them."""
    if "keras" not in sys.modules and "KERAS_BACKEND" not in os.environ:
        here = [name for name in (wanted, "tensorflow", "jax") if importlib.util.find_spec(name)]
        if not here:
            raise UserError("No engine of Keras is installed: pip install 'unetkit[cpu]' or 'unetkit[jax]'.")
        os.environ["KERAS_BACKEND"] = here[0]


def _answer(
    name: str,
    model: keras.Model,
    slots: Sequence[Any],
    where: Chip,
    batch: int,
    *,
    accumulation: int = 1,
    averaged: bool = False,
    input_shapes: Sequence[tuple[int, ...]] | None = None,
) -> Answer:
    import keras

    from unetkit.tpu import model_graph, model_memory, model_space, model_time

    generation = where.generation.name
    per_core = batch // accumulation // where.replicas
    graph = model_graph.trace(model, per_core, input_shapes)
    arguments = _arguments(model, slots, graph, accumulation, averaged, generation)
    argument_bytes = sum(a.tiled.padded_bytes for a in arguments)
    timeline = model_space.squeeze(model_memory.intervals(graph, generation), generation, where.hbm_bytes - argument_bytes)
    peak = argument_bytes + timeline.padded[timeline.peak]
    alive = [*arguments, *timeline.in_hbm(timeline.peak)]
    padded, unpadded = (sum(getattr(b.tiled, f"{state}_bytes") for b in alive) for state in ("padded", "unpadded"))
    trained = [a.tiled for a in arguments if a.kind == "weight"]
    works = model_time.step(graph, trained, [a.tiled for a in arguments if a.kind == "optimizer"], where)
    seconds = sum(work.seconds for work in works) * accumulation
    flops = sum(work.flops for work in works) * accumulation
    by_kind = defaultdict(int)
    for argument in arguments:
        by_kind[argument.kind] += argument.tiled.padded_bytes
    return Answer(
        name=name,
        chip=where.name,
        chips=where.chips,
        cores=where.cores,
        replicas=where.replicas,
        global_batch=batch,
        per_core_batch=per_core,
        accumulation=accumulation,
        precision=model.dtype_policy.name,
        image=graph.tensors[0].shape[1:-1],
        source="model",
        program=keras.backend.backend(),
        fits=peak <= where.hbm_bytes,
        hbm=Hbm(
            limit_bytes=where.hbm_bytes,
            peak_bytes=peak,
            argument_bytes=argument_bytes,
            temp_bytes=peak - argument_bytes,
            weight_bytes=by_kind["weight"],
            optimizer_bytes=by_kind["optimizer"],
            input_bytes=by_kind["input"],
        ),
        padding=Padding(ratio=padded / unpadded, peak_padded_bytes=padded, peak_unpadded_bytes=unpadded),
        step=Step(
            estimated_ms=seconds * 1e3,
            images_per_second=batch / seconds,
            images_per_second_per_chip=batch / seconds / where.chips,
            mxu_utilization=flops / (seconds * where.peak_flops),
            estimated_from_bytes_share=1.0,
            flops=flops,
            bytes_accessed=sum(work.moved_bytes for work in works) * accumulation,
        ),
        categories=model_time.categories(works, where),
        operations=model_time.operations(works, where, SHOWN_OPERATIONS),
        levels=model_time.levels(works, where),
        buffers=_rows(alive),
        curve=_curve(timeline, arguments, graph),
        notes=(NOTE, SMALL_BATCH) if per_core < SUBLANES else (NOTE,),
        versions={"unetkit": __version__, "keras": keras.__version__},
    )


def _arguments(model, slots, graph, accumulation: int, averaged: bool, generation: str) -> list[Interval]:
    """What the step is given: weights, their averages, the optimizer's state, inputs and targets of all micro-batches."""
    from unetkit.tpu.model_graph import DTYPES
    from unetkit.tpu.model_space import Interval, place_argument

    named = [("weight", v) for v in model.trainable_variables] * (2 if averaged else 1)
    named += [("other", v) for v in model.non_trainable_variables] + [("optimizer", v) for v in slots]
    placed = [(kind, v.path, place_argument(DTYPES.get(v.dtype, "f32"), tuple(v.shape), generation)) for kind, v in named]
    for tensors, layer in ((graph.inputs, "input"), (graph.outputs, "target")):
        for array in (graph.tensors[tensor] for tensor in tensors):
            placed.append(("input", layer, place_argument(array.dtype, (accumulation, *array.shape), generation)))
    return [Interval(kind=kind, layer=layer, tensor=-1, tiled=tiled, first=0, last=0) for kind, layer, tiled in placed]


def _rows(alive: Iterable[Interval]) -> tuple[Buffer, ...]:
    """The buffers as rows, the largest first, small ones folded."""
    ranked = sorted(alive, key=lambda b: -b.tiled.padded_bytes)
    least = FOLDED_BELOW * sum(b.tiled.padded_bytes for b in ranked)
    rows, folded = [], defaultdict(list)
    for one in ranked:
        tiled = one.tiled
        if tiled.padded_bytes < least or len(rows) >= SHOWN_BUFFERS:
            folded[one.kind].append(tiled)
            continue
        shape = f"{tiled.dtype}[{','.join(map(str, tiled.shape))}]"
        rows.append(
            Buffer(
                kind=one.kind,
                shape=shape,
                layout=f"{{{tiled.layout}}}",
                unpadded_bytes=tiled.unpadded_bytes,
                padded_bytes=tiled.padded_bytes,
                layer=one.layer,
            )
        )
    for kind, small in folded.items():
        unpadded, padded = (sum(getattr(tiled, f"{state}_bytes") for tiled in small) for state in ("unpadded", "padded"))
        shape = f"{len(small)} small buffers"
        rows.append(Buffer(kind=kind, shape=shape, layout=None, unpadded_bytes=unpadded, padded_bytes=padded, count=len(small)))
    return tuple(rows)


def _curve(timeline: Timeline, arguments: Sequence[Interval], graph) -> Curve:
    """Bytes alive over the operations, forward then backward, thinned to the highest point of each stretch."""
    step = max(1, -(-timeline.length // SHOWN_POINTS))
    kept = [max(range(at, min(at + step, timeline.length)), key=timeline.padded.__getitem__) for at in range(0, timeline.length, step)]
    kept[timeline.peak // step] = timeline.peak
    base, bare = (sum(getattr(a.tiled, f"{state}_bytes") for a in arguments) for state in ("padded", "unpadded"))
    count = len(graph.ops)
    names = [f"{op.layer or op.kind}" for op in graph.ops]
    names += [f"{name}, backward" for name in reversed(names)]
    return Curve(
        positions=tuple(kept),
        padded_bytes=tuple(base + timeline.padded[position] for position in kept),
        unpadded_bytes=tuple(bare + sum(b.tiled.unpadded_bytes for b in timeline.in_hbm(position)) for position in kept),
        instructions=tuple(names[min(position, 2 * count - 1)] for position in kept),
        peak=timeline.peak // step,
    )
