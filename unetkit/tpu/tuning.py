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
from typing import Any, Literal

from unetkit.errors import UserError
from unetkit.tpu import axes, inspection, model
from unetkit.tpu.answer import Answer
from unetkit.tpu.ask import Stage
from unetkit.tpu.chips import Chip, chip
from unetkit.tpu.environment import CompilerMissing, find_interpreter
from unetkit.tpu.lower import with_batch
from unetkit.tpu.packing_plan import with_packing
from unetkit.tpu.search import COMPILES, LANES_FROM, MARGIN, fits, search
from unetkit.tpu.tiles import SUBLANES

MODEL_SHARE = 0.7
"""Share of the usable HBM that the arithmetic model may fill by its own count: it has been up to a quarter too low."""

MODEL_SHARES = {"tpu7x": 0.6}
"""By generation, where it has been further off: 25 to 27 % too low on tpu7x (benchmarks/tune_model.py)."""

AXIS_COMPILES = 2
"""Complete compilations for each further axis: its best batch lies near the one already found."""

BATCHES_LOWERED = 2
"""Of how many batches, the fastest, other packings are compiled."""

Ended = Literal["complete", "interrupted", "out of time"]

Ask = Callable[[Any, str, int, Stage, str], Answer]
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
    ended: Ended
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
    recipe: Any,
    chip_name: str | None = None,
    *,
    images: int | None = None,
    minutes: float | None = None,
    ask: Ask | None = None,
    by_model: bool | None = None,
) -> Tuned:
    """The fastest global batch of a recipe: a multiple of replicas x 8, times the recipe's `training.accumulate`.

    Args:
        recipe: an `unetkit.recipe.Recipe`; its own batch does not matter.
        chip_name: as v2-8 (None: the recipe's `tpu.chip`).
        images: how many training images there are: no batch is larger.
        minutes: after which no further question is begun.
        ask: who is asked (None: the compiler).
        by_model: let the arithmetic model answer (None: where neither `ask` is given nor a compiler is here).

    Raises:
        UserError: no chip; fewer images than one batch.
    """
    where = chip(chip_name or recipe.tpu.chip or model._no_chip())
    unit = where.replicas * recipe.training.accumulate
    if images is not None and images < unit * SUBLANES:
        auto = recipe.training.batch == "auto"
        raise UserError(
            f"{'training.batch: auto takes' if auto else 'a tuned batch is one of the'} multiples of {unit * SUBLANES} "
            f"({where.replicas} replicas of a {where.name} x {SUBLANES} images"
            f"{f' x accumulate {recipe.training.accumulate}' if recipe.training.accumulate > 1 else ''}), "
            f"and there are {images} training images. Give more images"
            + (f", or a number that {unit} divides." if auto else f"; a batch of fewer ({unit} x 1 to {SUBLANES - 1}) needs no search.")
        )
    plain = recipe
    if recipe.model.lowering == "auto":  # a packing is decided for a batch, so the batch is found first
        plain = with_packing(recipe, ())
    if by_model is None:
        by_model = ask is None and not compiler_here()
    found = _Tuning(plain, where, images, None if minutes is None else 60.0 * minutes, ask or ask_inspection, by_model).run()
    searched = recipe.tpu.tune.lowering and found.ended == "complete" and not by_model
    if found.recipe is None or searched or found.recipe.model != plain.model:
        return found
    return dataclasses.replace(found, recipe=dataclasses.replace(found.recipe, model=recipe.model))


class _Tuning:
    def __init__(self, recipe: Any, where: Chip, images: int | None, seconds: float | None, ask: Ask, by_model: bool) -> None:
        self.recipe, self.where, self.images, self.ask, self.by_model = recipe, where, images, ask, by_model
        self.began, self.compiles, self.longest = time.monotonic(), 0, 0.0
        self.ends = None if seconds is None else self.began + seconds
        self.share = recipe.tpu.max_hbm or (model_share(where) if by_model else 1.0 - MARGIN)
        self.ended: Ended = "complete"
        self.rows: list[Answer] = []
        self.ranked: dict[tuple[int, str, str], list[Answer]] = {}
        """Batches that fit, by the other axes, the fastest first; of those that were not compiled the model says which."""
        self.packed: list[str] = []

    def run(self) -> Tuned:
        recipe, best = self.recipe, self.search(self.recipe, COMPILES)
        for change in axes.axes(recipe):
            if self.ended == "complete":
                more = self.search(change(recipe), AXIS_COMPILES, near=best)
                if more and (best is None or _speed(more) > _speed(best)):
                    recipe, best = change(recipe), more
        if self.recipe.tpu.tune.lowering and best is not None and self.ended == "complete" and not self.by_model:
            recipe, best = self.lowered(recipe, best)
        reasons = tuple(self.reasons(best))
        remedies = tuple(self.remedies()) if best is None and self.ended == "complete" else ()
        return Tuned(
            chip=self.where,
            choice=best,
            recipe=self.chosen(recipe, best) if best else None,
            candidates=tuple(self.rows),
            share=self.share,
            compiles=self.compiles,
            seconds=time.monotonic() - self.began,
            ended=self.ended,
            reasons=reasons,
            remedies=remedies,
        )

    def search(self, recipe: Any, compiles: int, near: Answer | None = None) -> Answer | None:
        """The best batch of a recipe, among few that are compiled to the end; what was asked is kept in `rows`."""
        unit = self.where.replicas * recipe.training.accumulate
        estimated = model.estimator(recipe, self.where, unit * SUBLANES)
        before = self.compiles

        @functools.cache
        def modelled(batch: int) -> Answer:
            return estimated(batch * unit)

        def ask(batch: int, stage: Stage) -> Answer:
            if self.by_model:
                return inspection.limited(modelled(batch), recipe.tpu.max_padding)
            return self.told(recipe, batch * unit, stage, compiles - (self.compiles - before))

        rows = range(SUBLANES, LANES_FROM, SUBLANES)
        start = max((b for b in rows if fits(modelled(b))), default=SUBLANES) if near is None else near.per_core_batch or SUBLANES
        found = search(
            ask,
            expected=lambda batch: modelled(batch).step.images_per_second or 1.0,
            start=start,
            most=None if self.images is None else self.images // unit,
            share=self.share,
            compiles=compiles,
            seconds=None if self.ends is None else self.ends - time.monotonic(),
        )
        self.ended = found.ended
        answers = [answer for _, answer in sorted(found.answers.items())]
        self.rows += answers
        if found.best is not None:
            self.ranked[_axes(found.best)] = sorted(
                (a for a in answers if fits(a, self.share)),
                key=lambda a: (_speed(a), _speed(modelled(a.per_core_batch or 0))),
                reverse=True,
            )
        return found.best

    def lowered(self, recipe: Any, best: Answer) -> tuple[Any, Answer]:
        """The recipe and answer after other packings were compiled for the two fastest batches: the batch is fixed before."""
        batches = [a.global_batch or 0 for a in self.ranked[_axes(best)][:BATCHES_LOWERED]]
        tried = [(plan, batch) for batch in batches for plan in axes.plans(recipe)]
        chosen, before = recipe, best
        for number, (plan, batch) in enumerate(tried):
            packed = with_packing(recipe, plan)
            if (answer := self.next(packed, batch, "full", len(tried) - number)) is None:
                break
            self.rows.append(answer)
            if fits(answer, self.share) and _speed(answer) > _speed(best):
                chosen, best = packed, answer
        else:
            gain = _speed(best) / _speed(before) - 1
            self.packed.append(
                f"packing {best.packing} makes {gain:.1%} more images per second than {before.packing} at {before.global_batch}"
                if chosen is not recipe
                else f"of {len(tried)} other packings tried none is faster"
            )
        return chosen, best

    def next(self, recipe: Any, batch: int, stage: Stage, left: int) -> Answer | None:
        """As `told`; None, with `ended` set, once the time is over or Ctrl-C was pressed."""
        if self.ends is not None and time.monotonic() >= self.ends:
            self.ended = "out of time"
            return None
        try:
            return self.told(recipe, batch, stage, left)
        except KeyboardInterrupt:
            self.ended = "interrupted"
            return None

    def told(self, recipe: Any, batch: int, stage: Stage, left: int) -> Answer:
        """What is known about one global batch, counted and timed; `left` complete compilations may follow, this one with them."""
        started = time.monotonic()
        time_left = f", at most {left * self.longest / 60:.0f} min left" if self.longest else ""
        answer = self.ask(recipe, self.where.name, batch, stage, f"{self.recipe.name} on {self.where.name}{time_left}")
        if answer.step.estimated_ms is not None and stage == "full":
            self.compiles += 1
            self.longest = max(self.longest, time.monotonic() - started)
        return inspection.limited(answer, recipe.tpu.max_padding)

    def chosen(self, recipe: Any, best: Answer) -> Any:
        tpu = dataclasses.replace(recipe.tpu, chip=self.where.name)
        return dataclasses.replace(with_batch(recipe, best.global_batch), tpu=tpu)

    # --- words

    def reasons(self, best: Answer | None) -> Iterator[str]:
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
            if self.recipe.tpu.tune.lowering:
                yield "packings were not tried: only the compiler knows whether one is faster"
        if self.ended != "complete":
            over = "interrupted" if self.ended == "interrupted" else "the time that was given is over"
            if best is not None:
                yield f"{over}: the choice is the best of what was known by then"
            elif self.rows:
                yield f"{over}: of no batch that fits is it known yet how fast it is"
            else:
                yield f"{over}: nothing was asked, so nothing is known"
        if best is None:
            if self.ended == "complete":
                yield f"nothing was found that fits into {self.share:.0%} of the HBM"
            return
        yield f"{best.global_batch} makes the most images per second of what fits into {self.share:.0%} of the HBM"
        yield from self.packed
        timed = [a for a in self.rows if _speed(a) and a is not best and fits(a, self.share)]
        larger = [a for a in timed if _axes(a) == _axes(best) and (a.global_batch or 0) > (best.global_batch or 0)]
        if larger:
            rival = max(larger, key=_speed)
            yield f"{rival.global_batch} fits as well but makes {1 - _speed(rival) / _speed(best):.1%} fewer images per second"
        if self.images is not None and (best.global_batch or 0) + smallest > self.images:
            yield f"there are {self.images} training images, so no larger batch was looked at"

    # --- what would make it fit

    def remedies(self) -> Iterator[Remedy]:
        """Changes to the smallest batch, each asked for its memory."""
        for text, recipe, batch in axes.smaller(self.recipe, self.where.replicas):
            try:
                answer = self.next(recipe, batch, "memory", 0)
            except UserError:
                continue  # this change makes a network that cannot be built
            if answer is None:
                return
            yield Remedy(text=text, answer=answer)


def ask_inspection(recipe: Any, chip_name: str, batch: int, stage: Stage, label: str) -> Answer:
    """Asks the compiler; what is known is kept without its lists, which no table of candidates shows."""
    (found,) = inspection.ask_recipe(recipe, chip_name, [batch], stage=stage, label=label)
    return found.answer


def model_share(where: Chip) -> float:
    """Share of the usable HBM that a choice of the arithmetic model may fill."""
    return MODEL_SHARES.get(where.generation.name, MODEL_SHARE)


def compiler_here() -> bool:
    try:
        find_interpreter()
    except CompilerMissing:
        return False
    return True


def _speed(answer: Answer) -> float:
    return answer.step.images_per_second or 0.0


def _axes(answer: Answer) -> tuple[int, str, str]:
    return answer.accumulation, answer.precision, answer.remat
