"""`inspect`: a recipe or a Keras model in, answers out: lowered, compiled for a TPU that is not there, analysed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from unetkit.errors import UserError
from unetkit.tpu import analyse, ask, lower, progress, serial, trials
from unetkit.tpu import model as estimates
from unetkit.tpu.answer import Answer
from unetkit.tpu.ask import Stage
from unetkit.tpu.chips import KNOWN, Chip, chip
from unetkit.tpu.environment import CompilerMissing, find_interpreter
from unetkit.tpu.lower import Lowered
from unetkit.tpu.record import Record


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """An answer with what it was made from, for those who need the whole program and not only its summary.

    `lowered` and `record` are None where the arithmetic model answered, because no compiler is here.
    """

    answer: Answer
    chip: Chip
    lowered: Lowered | None = None
    record: Record | None = None


def inspect_recipe(
    recipe: Any,
    chip_name: str | None = None,
    batches: Sequence[int] | None = None,
    program: str | None = None,
    *,
    stage: Stage = "full",
    advise: bool = False,
) -> list[Answer]:
    """What the TPU compiler says about the step that the trainer runs for a recipe; the arithmetic model where there is none.

    Args:
        recipe: an `unetkit.recipe.Recipe`.
        chip_name: as v2-8 (None: the recipe's `tpu.chip`).
        batches: global batches (None: the recipe's own).
        program: jax or tensorflow (None: the recipe's `tpu.program`).
        stage: `memory` answers in seconds whether it fits and what pads; `full` also how long it takes, in minutes.
        advise: also try changes that may help, by asking for the memory of each.

    Returns:
        One answer per batch.

    Raises:
        UserError: no chip, a batch that the replicas cannot share, a model that cannot be built.
    """
    return [found.answer for found in ask_recipe(recipe, chip_name, batches, program, stage=stage, advise=advise)]


def ask_recipe(
    recipe: Any,
    chip_name: str | None = None,
    batches: Sequence[int] | None = None,
    program: str | None = None,
    *,
    stage: Stage = "full",
    advise: bool = False,
    label: str | None = None,
) -> list[Inspected]:
    """As `inspect_recipe`, with what each answer was made from; `label` is told beside the progress (None: the recipe's name)."""
    where = _chip(chip_name or recipe.tpu.chip, "--chip, or tpu.chip in the recipe")
    try:
        find_interpreter()
    except CompilerMissing as missing:
        modelled = estimates.estimate_recipe(recipe, where.name, batches or [numbered(recipe.training.batch)], advise=advise)
        return [Inspected(answer=_told(answer, str(missing)), chip=where) for answer in modelled]
    with progress.Line(label or recipe.name) as show:
        recipes = [lower.with_batch(recipe, batch) for batch in batches or [numbered(recipe.training.batch)]]
        engine = program or recipe.tpu.program

        def memory_of(changed: Sequence[Any]) -> list[Answer]:
            return [_ask(one, where, "memory", show).answer for one in lower.lower_recipes(changed, where, engine, show)]

        found = [_ask(one, where, stage, show) for one in lower.lower_recipes(recipes, where, engine, show)]
        if not advise:
            return found
        return [_advised(one, trials.changes(asked, one.answer), memory_of) for one, asked in zip(found, recipes, strict=True)]


def inspect(
    model: Any,
    *,
    chip: str,
    batch: int,
    optimizer: Any = None,
    loss: Any = None,
    input_shape: Sequence[int] | None = None,
    target_shape: Sequence[int] | None = None,
    stage: Stage = "full",
    advise: bool = False,
) -> Answer:
    """What the TPU compiler says about one `fit` step of any Keras model, on JAX; the arithmetic model where there is none.

    ```python
    model = keras.applications.ResNet50(weights=None)
    answer = unetkit.tpu.inspect(model, optimizer="adam", loss="sparse_categorical_crossentropy", batch=1024, chip="v3-8")
    print(answer.fits, answer.padding.ratio, answer.step.estimated_ms)
    print(unetkit.tpu.text(answer))  # all of it, as `unetkit inspect` shows it
    ```

    Args:
        model: a Keras model that can be written as a config; compiled or not.
        chip: accelerator, as v2-8.
        batch: global batch.
        optimizer, loss: as for `compile` (None: those the model was compiled with).
        input_shape: of one sample, where the model leaves sizes open.
        target_shape: of one sample, where it is not that of the output (or the output without classes, for a sparse loss).
        stage, advise: see `inspect_recipe`.

    Raises:
        UserError: something is missing or cannot be written as a config.
    """
    where = _chip(chip, "chip")
    described = serial.describe(model, optimizer=optimizer, loss=loss, input_shape=input_shape, target_shape=target_shape)
    try:
        find_interpreter()
    except CompilerMissing as missing:
        shapes = [tuple(shape) for shape in described["input_shapes"]]

        def modelled(batches: Sequence[int]) -> list[Answer]:
            made_by = optimizer or model.optimizer
            return [estimates.estimate(model, chip_name=chip, batch=one, optimizer=made_by, input_shapes=shapes) for one in batches]

        (answer,) = modelled([batch])
        if advise:
            answer = dataclasses.replace(answer, advice=trials.tried(trials.batch_changes(answer, int, "batch"), answer, modelled))
        return _told(answer, str(missing))
    with progress.Line(model.name) as show:

        def memory_of(changed: Sequence[tuple[dict[str, Any], int]]) -> list[Answer]:
            return [_ask(lower.lower_keras(one[0], where, one[1], show), where, "memory", show).answer for one in changed]

        found = _ask(lower.lower_keras(described, where, batch, show), where, stage, show)
        return _advised(found, _model_changes(described, found.answer), memory_of).answer if advise else found.answer


def _model_changes(described: dict[str, Any], answer: Answer) -> Iterator[trials.Trial]:
    """Changes to a Keras model's step worth trying."""
    yield from trials.batch_changes(answer, lambda batch: (described, batch), "batch")
    narrow = serial.in_bfloat16(described)
    if narrow != described:
        yield trials.in_bfloat16((narrow, answer.global_batch), "keras.config.set_dtype_policy('mixed_bfloat16') before the model is made")


def _advised(found: Inspected, changes: Iterable[trials.Trial], ask_memory: trials.Ask) -> Inspected:
    if found.answer.hbm.peak_bytes is None:
        return found
    return dataclasses.replace(found, answer=dataclasses.replace(found.answer, advice=trials.tried(changes, found.answer, ask_memory)))


def limited(answer: Answer, max_padding: float | None) -> Answer:
    """An answer that counts as not fitting where it is padded more than allowed."""
    ratio = answer.padding.ratio
    if max_padding is None or ratio is None or ratio <= max_padding:
        return answer
    return dataclasses.replace(answer, fits=False, failure=f"padded {ratio:.2f}x at the peak, above the limit of {max_padding:g}x")


def numbered(batch: int | str) -> int:
    """A global batch that is a number; raises UserError for `auto`."""
    if isinstance(batch, str):
        raise UserError("training.batch is auto: name a batch (--batch 128), or let `unetkit tune` find it")
    return batch


def _told(answer: Answer, missing: str) -> Answer:
    return dataclasses.replace(answer, notes=(*answer.notes, missing))


def _chip(name: str | None, named_by: str) -> Chip:
    if name is None:
        raise UserError(f"No accelerator was named ({named_by}); known: {', '.join(KNOWN)} and other sizes of these")
    return chip(name)


def _ask(lowered: Lowered, where: Chip, stage: Stage, show: progress.Show) -> Inspected:
    def labelled(stage_now: str, seconds: float, expected: float | None) -> None:
        show(f"batch {lowered.global_batch}, {stage_now}", seconds, expected)

    record, _ = ask.compile_program(lowered.program, where, stage=stage, show=labelled)
    return Inspected(answer=analyse.answer(lowered, record, where), lowered=lowered, record=record, chip=where)
