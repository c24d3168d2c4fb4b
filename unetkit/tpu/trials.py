"""Changes to a recipe, or to the batch of any model, that may help, each tried by asking again before it is told.

What is asked is memory alone, which the compiler answers in seconds, and many changes are asked at once. A change is told
only if the number it names came out lower.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from unetkit.shapes import round_up
from unetkit.tpu.advice import WORTH
from unetkit.tpu.answer import Advice, Answer
from unetkit.tpu.lower import with_batch
from unetkit.tpu.tiles import LANES, SUBLANES

WIDEST_LOSS = 0.7
"""Channels are rounded up to 128 only from this share of them on: below, the wider layer is another network."""

SAME = 1.001
"""Costs the same: no more than this times as much."""

Ask = Callable[[Sequence[Any]], Sequence[Answer]]
"""Changed things, as recipes -> what is known about each, memory at least."""

Quantity = Callable[[Answer], float | None]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What is changed (a recipe, or whatever `Ask` takes), what is hoped of it, and which number must come out lower.

    `beside` is another one, told with `beside_text` if that number came out no higher than before.
    """

    changed: Any
    text: str
    quantity: str
    measure: Quantity
    beside: Any = None
    beside_text: str = ""


def needed(answer: Answer) -> float | None:
    return answer.hbm.peak_bytes


def needed_per_image(answer: Answer) -> float | None:
    held = answer.hbm.peak_bytes, answer.hbm.argument_bytes, answer.per_core_batch
    return None if None in held else (held[0] - held[1]) / held[2]


def padding(answer: Answer) -> float | None:
    return answer.padding.ratio


def tried(trials: Iterable[Trial], answer: Answer, ask: Ask) -> tuple[Advice, ...]:
    """What would help, the most first.

    Args:
        trials: changes of what `answer` is about.
        answer: what is known without them.
        ask: asks about changed ones on the same chip.
    """
    trials = list(trials)
    asked = [changed for trial in trials for changed in (trial.changed, trial.beside) if changed is not None]
    answers = iter(ask(asked) if asked else ())
    advice = []
    for trial in trials:
        found, beside = next(answers), next(answers) if trial.beside is not None else None
        before, after = trial.measure(answer), trial.measure(found)
        if found.fits and before and after and after < WORTH * before:
            same = beside is not None and beside.fits and trial.measure(beside) <= SAME * before
            text = trial.text + (trial.beside_text if same else "")
            tried_by = "model" if found.source == "model" else "compiled"
            advice.append(Advice(text=text, quantity=trial.quantity, before=before, after=after, tried=tried_by))
    return tuple(sorted(advice, key=lambda a: a.after / a.before))


def changes(recipe: Any, answer: Answer) -> Iterator[Trial]:
    """Changes to a recipe worth trying, by what the answer about it shows."""
    yield from batch_changes(answer, functools.partial(with_batch, recipe), "training.batch")
    yield from _accumulation(recipe, answer)
    if recipe.training.precision == "float32":
        yield in_bfloat16(_training(recipe, precision="mixed_bfloat16"), "training.precision: mixed_bfloat16")
    yield from _wider_levels(recipe)


def batch_changes(answer: Answer, changed: Callable[[int], Any], key: str) -> Iterator[Trial]:
    """Other global batches worth trying.

    Args:
        changed: global batch -> what to ask about.
        key: where the batch is set, for the text.
    """
    yield from _batch_that_fits(answer, changed, key)
    yield from _whole_tiles(answer, changed, key)
    yield from _batch_in_lanes(answer, changed, key)


def in_bfloat16(changed: Any, text: str) -> Trial:
    """The same in 16 bits."""
    return Trial(changed=changed, text=text, quantity="bytes needed per replica", measure=needed)


def _batch_that_fits(answer: Answer, changed: Callable[[int], Any], key: str) -> Iterator[Trial]:
    """Of a batch that does not fit, about as much as does: what is not weights and state grows with it, tile by tile."""
    if answer.fits is False and (share := _room(answer)):
        per_replica = int(answer.per_core_batch * share)
        per_replica = per_replica // SUBLANES * SUBLANES or per_replica
        if per_replica:
            batch = per_replica * answer.replicas * answer.accumulation
            text = f"{key}: {batch}, {per_replica} per replica, fits"
            yield Trial(changed=changed(batch), text=text, quantity="bytes needed per replica", measure=needed)


def _room(answer: Answer) -> float | None:
    """The room that the limit leaves for what grows with the batch, as a share of what that takes now."""
    limit, peak, held = answer.hbm.limit_bytes, answer.hbm.peak_bytes, answer.hbm.argument_bytes
    return None if None in (limit, peak, held) or peak <= held else max(0.0, (limit - held) / (peak - held))


def _whole_tiles(answer: Answer, changed: Callable[[int], Any], key: str) -> Iterator[Trial]:
    """A per-replica batch between multiples of 8 is padded to the next one, in memory and in time."""
    per_replica, unit = answer.per_core_batch, answer.replicas * answer.accumulation
    if per_replica > SUBLANES and per_replica % SUBLANES:
        fewer, more = per_replica // SUBLANES * SUBLANES, round_up(per_replica, SUBLANES)
        yield Trial(
            changed=changed(fewer * unit),
            text=f"{key}: {fewer * unit}, {fewer} per replica; {per_replica} are padded to {more}",
            quantity="bytes needed per replica",
            measure=needed,
            beside=changed(more * unit),
            beside_text=f" (and {more * unit}, {more} per replica, need no more than {per_replica})",
        )


def _batch_in_lanes(answer: Answer, changed: Callable[[int], Any], key: str) -> Iterator[Trial]:
    """From 64 images per replica on the compiler may put the batch in the 128 lanes and the channels in the rows."""
    if answer.padding.ratio and answer.padding.ratio > 1.25 and answer.per_core_batch < LANES:
        batch = LANES * answer.replicas * answer.accumulation
        text = f"{key}: {batch}, {LANES} per replica: they fill the {LANES} lanes that the channels do not"
        yield Trial(changed=changed(batch), text=text, quantity="temporary and output bytes per image", measure=needed_per_image)


def _accumulation(recipe: Any, answer: Answer) -> Iterator[Trial]:
    """The same global batch in more, smaller micro-batches: twice as many, or as many as it takes to fit."""
    room = 0.5 if answer.fits is not False else _room(answer)
    if not room:
        return
    more = 2
    while 1 / more > room:
        more *= 2
    accumulate = more * recipe.training.accumulate
    if answer.global_batch % (accumulate * answer.replicas) == 0:
        yield Trial(
            changed=_training(recipe, accumulate=accumulate),
            text=f"training.accumulate: {accumulate}, the same batch in micro-batches of {answer.global_batch // accumulate}",
            quantity="bytes needed per replica",
            measure=needed,
        )


def _wider_levels(recipe: Any) -> Iterator[Trial]:
    """Channels just below a multiple of 128 fill the lanes for nothing."""
    for number, level in enumerate(getattr(recipe.model, "levels", ())):
        wide = round_up(level.channels, LANES)
        if WIDEST_LOSS * wide <= level.channels < wide:
            levels = list(recipe.model.levels)
            levels[number] = dataclasses.replace(level, channels=wide)
            yield Trial(
                changed=dataclasses.replace(recipe, model=dataclasses.replace(recipe.model, levels=tuple(levels))),
                text=f"model.levels[{number}]: {wide} channels in place of {level.channels}, which are padded to as many",
                quantity="padding ratio at the peak",
                measure=padding,
            )


def _training(recipe: Any, **values: Any) -> Any:
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, **values))
