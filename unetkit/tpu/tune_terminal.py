"""What `tune` found, on a terminal: one row per candidate, the choice and why, and which accelerator does the job best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from unetkit.tpu.answer import Answer
from unetkit.tpu.search import fits
from unetkit.tpu.terminal import render, size
from unetkit.tpu.tuning import Tuned

JOB_IMAGES = 1_000_000
"""Images of the job that accelerators are compared on, where the recipe does not give its length in images."""


def text(found: Sequence[Tuned], images: int | None, prices: Mapping[str, float]) -> str:
    """All chips: their candidates, choices and reasons; for several, the comparison.

    Args:
        found: one for each chip.
        images: length of the job (None: a million).
        prices: per chip-hour, by generation, as {"v5e": 1.2}.
    """
    parts = [part for one in found for part in sections(one)]
    if len(found) > 1 or prices:
        parts.append(comparison(found, images or JOB_IMAGES, prices))
    parts.append(Text("Times are the compiler's or the model's estimates; nothing here was measured on a TPU.", style="dim"))
    return render(parts)


def sections(found: Tuned) -> list[RenderableType]:
    """One chip."""
    parts: list[RenderableType] = [candidates(found), choice(found)]
    if found.remedies:
        parts.append(remedies(found))
    return parts


def candidates(found: Tuned) -> Table:
    """One row per candidate, the choice marked. `from` says where a row's figures come from; an axis is shown where it varies."""
    where = found.chip
    title = f"{where.name}: {where.chips} chips, {where.cores} cores, {where.replicas} replicas"
    varied = [name for name in ("accumulation", "precision", "remat", "packing") if len({getattr(a, name) for a in found.candidates}) > 1]
    table = _table(title, "batch", "per replica", "needed", "images/s", "MXU", "fits", "from", *varied, right=range(5))
    for answer in found.candidates:
        chosen = found.choice is not None and answer is found.choice
        speed, used = answer.step.images_per_second, answer.step.mxu_utilization
        cells = [str(answer.global_batch), str(answer.per_core_batch), size(answer.hbm.peak_bytes)]
        cells += [f"{speed:,.0f}" if speed else "", f"{used:.1%}" if used else "", _fits(answer, found.share), answer.source]
        cells += [str(getattr(answer, name)) for name in varied]
        table.add_row(*cells, style="bold" if chosen else "dim" if answer.source == "interpolated" else None)
    return table


def choice(found: Tuned) -> Text:
    best = found.choice
    if best is None:
        head = Text("no batch was chosen", style="bold red")
    else:
        head = Text(f"training.batch: {best.global_batch}", style="bold green")
        head.append(
            f" ({best.per_core_batch} per replica{f' x accumulate {best.accumulation}' if best.accumulation > 1 else ''})", style=""
        )
    asked = f"{found.compiles} complete compilations, {found.seconds / 60:.1f} min"
    return Text("\n").join([head, *(Text(f"  {reason}") for reason in found.reasons), Text(f"  {asked}", style="dim")])


def remedies(found: Tuned) -> Table:
    """What was tried where not even 8 images per replica fit."""
    table = _table("what would make it fit (each tried)", "change", "fits", "needed", "padding", right=(2, 3))
    for remedy in found.remedies:
        ratio = remedy.answer.padding.ratio
        table.add_row(remedy.text, _fits(remedy.answer, found.share), size(remedy.answer.hbm.peak_bytes), f"{ratio:.2f}" if ratio else "?")
    return table


def comparison(found: Sequence[Tuned], images: int, prices: Mapping[str, float]) -> Table:
    """Hours and cost of the job on each chip; prices count chips."""
    rows = [(one, hours(one, images), cost(one, images, prices)) for one in found]
    title = f"{images:,} images"
    table = _table(title, "accelerator", "chips", "batch", "images/s", "hours", "chip-hours", "cost", right=range(1, 7))
    fastest = min((h for _, h, _ in rows if h is not None), default=None)
    cheapest = min((c for _, _, c in rows if c is not None), default=None)
    for one, time, price in rows:
        marks = ["fastest"] * (time is not None and time == fastest) + ["cheapest"] * (price is not None and price == cheapest)
        name = one.chip.name + (f" ({', '.join(marks)})" if marks else "")
        if one.choice is None or time is None:
            table.add_row(name, str(one.chip.chips), "none", "", "", "", "")
            continue
        table.add_row(
            name, str(one.chip.chips), str(one.choice.global_batch), f"{one.choice.step.images_per_second:,.0f}", f"{time:.2f}",
            f"{time * one.chip.chips:.2f}", "" if price is None else f"{price:.2f}",
        )  # fmt: skip
    return table


def hours(found: Tuned, images: int) -> float | None:
    """Hours that the choice takes for `images`."""
    speed = found.choice.step.images_per_second if found.choice else None
    return images / speed / 3600.0 if speed else None


def cost(found: Tuned, images: int, prices: Mapping[str, float]) -> float | None:
    """Price of the job: hours x chips x price per chip-hour of this generation."""
    time, price = hours(found, images), prices.get(found.chip.generation.name)
    return None if time is None or price is None else time * found.chip.chips * price


def _fits(answer: Answer, share: float) -> str:
    if answer.fits and not fits(answer, share):
        return "too near"
    return {True: "yes", False: "no", None: "?"}[answer.fits]


def _table(title: str, *columns: str, right) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number in right else "left", overflow="fold")
    return table
