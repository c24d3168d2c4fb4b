"""`tune`: the global batch that trains a recipe fastest on an accelerator, found by asking the compiler a few times.

`search` decides what to ask; here recipes are made of its questions, further axes are tried where the recipe allows them,
and where nothing fits, what would make it fit.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from unetkit.errors import UserError
from unetkit.tpu import inspection, model
from unetkit.tpu.answer import Answer
from unetkit.tpu.chips import Chip, chip
from unetkit.tpu.environment import CompilerMissing, find_interpreter
from unetkit.tpu.lower import with_batch
from unetkit.tpu.packing_plan import with_packing
from unetkit.tpu.search import COMPILES, LANES_FROM, MARGIN, Found, fits, search
from unetkit.tpu.tiles import SUBLANES

MODEL_SHARE = 0.7
"""Share of the usable HBM that the arithmetic model may fill by its own count: it has been up to a quarter too low."""

AXIS_COMPILES = 2
"""Complete compilations for each further axis: its best batch lies near the one already found."""

Ask = Callable[[Any, str, int, str, str], Answer]
"""(recipe, chip, global batch, stage, label) -> what is known."""


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """A change tried because not even 8 images per replica fit."""

    text: str
    answer: Answer


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What was found for one chip.

    Attributes:
        choice: the fastest that fits; None where nothing does.
        recipe: the recipe with the choice in it.
        candidates: every configuration that was asked about or interpolated.
        share: of the usable HBM that was allowed.
        compiles: complete compilations.
        ended: complete, interrupted, out of time.
    """

    chip: Chip
    choice: Answer | None
    recipe: Any
    candidates: tuple[Answer, ...]
    share: float
    compiles: int
    seconds: float
    ended: str
    reasons: tuple[str, ...]
    remedies: tuple[Remedy, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """What `--json` holds for one chip."""
        return {
            "choice": self.choice.brief() if self.choice else None,
            "candidates": [answer.brief() for answer in self.candidates],
            "compiles": self.compiles,
            "seconds": round(self.seconds, 1),
            "ended": self.ended,
            "hbm_share": self.share,
            "reasons": list(self.reasons),
            "remedies": [{"text": remedy.text, **remedy.answer.brief()} for remedy in self.remedies],
        }


def tune_recipe(
    recipe: Any, chip_name: str | None = None, *, images: int | None = None, minutes: float | None = None, ask: Ask | None = None
) -> Tuned:
    """The fastest global batch of a recipe: a multiple of replicas x 8, times the recipe's `training.accumulate`.

    Args:
        recipe: an `unetkit.recipe.Recipe`; its own batch does not matter.
        chip_name: as v2-8 (None: the recipe's `tpu.chip`).
        images: how many training images there are: no batch is larger.
        minutes: after which no further question is begun.
        ask: who is asked (None: the compiler, or the arithmetic model where there is none).

    Raises:
        UserError: no chip; fewer images than one batch.
    """
    where = chip(chip_name or recipe.tpu.chip or model._no_chip())
    unit = where.replicas * recipe.training.accumulate
    if images is not None and images < unit * SUBLANES:
        raise UserError(
            f"training.batch: auto takes multiples of {unit * SUBLANES} ({where.replicas} replicas of a {where.name} x {SUBLANES} images"
            f"{f' x accumulate {recipe.training.accumulate}' if recipe.training.accumulate > 1 else ''}), "
            f"and there are {images} training images. Give more images, or a number that {unit} divides."
        )
    plain = recipe
    if recipe.model.lowering == "auto":  # a packing is decided for a batch, so the batch is found first
        plain = with_packing(recipe, ())
    found = _Tuning(plain, where, images, None if minutes is None else 60.0 * minutes, ask).run()
    return found if found.recipe is None else dataclasses.replace(found, recipe=dataclasses.replace(found.recipe, model=recipe.model))


class _Tuning:
    def __init__(self, recipe: Any, where: Chip, images: int | None, seconds: float | None, ask: Ask | None) -> None:
        self.recipe, self.where, self.images, self.seconds = recipe, where, images, seconds
        self.began, self.compiles, self.longest = time.monotonic(), 0, 0.0
        self.by_model = ask is None and not compiler_here()
        self.share = recipe.tpu.max_hbm or (MODEL_SHARE if self.by_model else 1.0 - MARGIN)
        self.max_padding = recipe.tpu.max_padding
        self.ask = ask or ask_inspection
        self.rows: list[Answer] = []

    def run(self) -> Tuned:
        recipe, found = self.recipe, self.search(self.recipe, COMPILES)
        best, ended, tried = found.best, found.ended, [(recipe, found.best)]
        for changed in self.axes(recipe) if ended == "complete" else ():
            more = self.search(changed(recipe), AXIS_COMPILES, near=best)
            ended = more.ended
            tried.append((changed(recipe), more.best))
            if more.best and (best is None or _speed(more.best) > _speed(best)):
                recipe, best = changed(recipe), more.best
            if ended != "complete":
                break
        remedies = tuple(self.remedies()) if best is None and ended == "complete" else ()
        return Tuned(
            chip=self.where,
            choice=best,
            recipe=self.chosen(recipe, best) if best else None,
            candidates=tuple(self.rows),
            share=self.share,
            compiles=self.compiles,
            seconds=time.monotonic() - self.began,
            ended=ended,
            reasons=tuple(self.reasons(best, ended)),
            remedies=remedies,
        )

    def search(self, recipe: Any, compiles: int, near: Answer | None = None) -> Found:
        unit = self.where.replicas * recipe.training.accumulate
        estimated = model.estimator(recipe, self.where, unit * SUBLANES)

        @functools.cache
        def modelled(batch: int) -> Answer:
            return estimated(batch * unit)

        def ask(batch: int, stage: str) -> Answer:
            started = time.monotonic()
            answer = modelled(batch) if self.by_model else self.ask(recipe, self.where.name, batch * unit, stage, self.label(compiles))
            if stage == "full" and answer.step.estimated_ms is not None:
                self.longest = max(self.longest, time.monotonic() - started)
            return inspection.limited(answer, self.max_padding)

        rows = range(SUBLANES, LANES_FROM, SUBLANES)
        start = max((b for b in rows if fits(modelled(b))), default=SUBLANES) if near is None else near.per_core_batch or SUBLANES
        found = search(
            ask,
            expected=lambda batch: modelled(batch).step.images_per_second or 1.0,
            start=start,
            most=None if self.images is None else self.images // unit,
            share=self.share,
            compiles=compiles,
            seconds=None if self.seconds is None else self.seconds - (time.monotonic() - self.began),
        )
        self.compiles += found.compiles
        self.rows += [answer for _, answer in sorted(found.answers.items())]
        return found

    def label(self, compiles: int) -> str:
        left = f", at most {compiles * self.longest / 60:.0f} min left" if self.longest else ""
        return f"{self.recipe.name} on {self.where.name}{left}"

    def axes(self, recipe: Any) -> Iterator[Callable[[Any], Any]]:
        """Changes that the recipe allows beside the batch, each from what the ones before it left."""
        allowed, training = recipe.tpu.tune, recipe.training
        if allowed.precision and training.precision == "float32":
            yield lambda r: changed(r, precision="mixed_bfloat16")
        if allowed.remat and training.remat == "none":
            yield lambda r: changed(r, remat="blocks")
        if allowed.accumulate:
            for times in (2, 4):
                yield lambda r, times=times: changed(r, accumulate=times * training.accumulate)

    def chosen(self, recipe: Any, best: Answer) -> Any:
        tpu = dataclasses.replace(recipe.tpu, chip=self.where.name)
        return dataclasses.replace(with_batch(recipe, best.global_batch), tpu=tpu)

    # --- words

    def reasons(self, best: Answer | None, ended: str) -> Iterator[str]:
        """Why this choice, in sentences."""
        where = self.where
        smallest = where.replicas * SUBLANES * self.recipe.training.accumulate
        yield f"global batches are multiples of {smallest}: {where.replicas} replicas x {SUBLANES} images each" + (
            f" x accumulate {self.recipe.training.accumulate}" if self.recipe.training.accumulate > 1 else ""
        )
        if where.replicas != where.cores:
            yield (
                f"a {where.name} has {where.cores} cores on {where.chips} chips; two cores work as one, so {where.replicas} replicas "
                "were compiled for, as on the real machine"
            )
        if self.by_model:
            yield (
                f"the TPU compiler is not here: the arithmetic model answered, and may fill {self.share:.0%} of the HBM by its count "
                "(unetkit analysis setup)"
            )
        if ended == "interrupted":
            yield "interrupted: the choice is the best of what was known by then"
        if ended == "out of time":
            yield "the time that was given is over: the choice is the best of what was known by then"
        if best is None:
            yield f"nothing was found that fits into {self.share:.0%} of the HBM"
            return
        yield f"{best.global_batch} makes the most images per second of what fits into {self.share:.0%} of the HBM"
        timed = [a for a in self.rows if a.step.images_per_second and a is not best and fits(a, self.share)]
        larger = [a for a in timed if (a.global_batch or 0) > (best.global_batch or 0)]
        if larger:
            rival = max(larger, key=_speed)
            yield f"{rival.global_batch} fits as well but makes {1 - _speed(rival) / _speed(best):.1%} fewer images per second"
        if self.images is not None and (best.global_batch or 0) + smallest > self.images:
            yield f"there are {self.images} training images, so no larger batch was looked at"

    # --- what would make it fit

    def remedies(self) -> Iterator[Remedy]:
        """Changes to the smallest batch, each asked for its memory."""
        smallest = self.where.replicas * SUBLANES * self.recipe.training.accumulate
        for text, recipe, batch in self.changes(smallest):
            try:
                answer = self.ask(recipe, self.where.name, batch, "memory", self.label(0))
            except UserError:
                continue  # this change makes a network that cannot be built
            yield Remedy(text=text, answer=answer)

    def changes(self, smallest: int) -> Iterator[tuple[str, Any, int]]:
        recipe, training, replicas = self.recipe, self.recipe.training, self.where.replicas
        half = changed(recipe, precision="mixed_bfloat16")
        if training.precision == "float32":
            yield "training.precision: mixed_bfloat16", half, smallest
        if training.remat == "none":
            yield "training.remat: blocks", changed(recipe, remat="blocks"), smallest
            if training.precision == "float32":
                yield "mixed_bfloat16 and remat: blocks", changed(half, remat="blocks"), smallest
        for rows in (4, 2, 1):
            unit = replicas * training.accumulate
            yield f"training.batch: {rows * unit}, {rows} per replica (padded where the batch lies in rows of 8)", recipe, rows * unit
            times = SUBLANES // rows * training.accumulate
            yield (
                f"training.accumulate: {times}, the batch of {smallest} in micro-batches of {rows} per replica",
                changed(recipe, accumulate=times),
                smallest,
            )
        sides = recipe.data.size if isinstance(recipe.data.size, tuple) else (recipe.data.size,)
        if all(side % 2 == 0 for side in sides):
            size = tuple(side // 2 for side in sides)
            smaller = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, size=size if len(size) > 1 else size[0]))
            yield f"data.size: {' x '.join(map(str, size))}", smaller, smallest


def changed(recipe: Any, **training: Any) -> Any:
    """The recipe with other keys of `training`."""
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, **training))


def ask_inspection(recipe: Any, chip_name: str, batch: int, stage: str, label: str) -> Answer:
    """Asks the compiler; what is known is kept without its lists, which no table of candidates shows."""
    (found,) = inspection.ask_recipe(recipe, chip_name, [batch], stage=stage, label=label)
    return found.answer


def compiler_here() -> bool:
    try:
        find_interpreter()
    except CompilerMissing:
        return False
    return True


def _speed(answer: Answer) -> float:
    return answer.step.images_per_second or 0.0
