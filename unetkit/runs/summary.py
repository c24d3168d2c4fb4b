"""What a run folder says in a line, and what several of them have in common: for `unetkit runs`. Reads, never writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unetkit.errors import UnetkitError
from unetkit.runs import checkpoints, names
from unetkit.runs.changes import ABSENT, flat
from unetkit.runs.checkpoints import HIGHER_IS_BETTER
from unetkit.runs.run import Run, is_run, read, read_json


@dataclass(frozen=True)
class Summary:
    """A run in a line. None is unknown, as the loss of a run that has logged nothing.

    Attributes:
        state: "done", "unfinished", or "damaged: why".
        step, images: of the newest line of the log.
        length: images it is to train; None where the recipe counts epochs.
        metric, best, best_images: the recipe's validation metric, its best value and when that was measured.
        last: the newest value of each number in the log, without step and images.
        updated: when the log was last written to, in seconds since 1970.
    """

    path: str
    state: str
    step: int | None = None
    images: int | None = None
    length: int | None = None
    metric: str | None = None
    best: float | None = None
    best_images: int | None = None
    last: Mapping[str, float] = dataclasses.field(default_factory=dict)
    backend: str | None = None
    device: str | None = None
    replicas: int | None = None
    starts: int = 0
    updated: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return dataclasses.asdict(self)


def summarize(path: str | Path) -> Summary:
    """The summary of one run folder. One that is damaged is still summarized, its `state` says so.

    Raises:
        UserError: there is no run folder at `path`.
    """
    run = read(path)
    try:
        return _summary(run)
    except (UnetkitError, KeyError, TypeError) as error:
        return Summary(str(run.path), f"damaged: {str(error).splitlines()[0]}")


def found_below(folder: str | Path) -> list[Path]:
    """The run folders in `folder`, by name; `folder` itself where it is one."""
    place = Path(folder)
    if is_run(place):
        return [place]
    return sorted(entry for entry in place.iterdir() if is_run(entry)) if place.is_dir() else []


def saved(run: Run) -> list[dict[str, Any]]:
    """The complete checkpoints of a run, oldest first: step, images, metrics, bytes."""
    listed = []
    for folder in checkpoints.found(run.checkpoints_path):
        if checkpoints.is_complete(folder):
            checkpoint = checkpoints.load(folder)
            size = sum(file.stat().st_size for file in folder.iterdir())
            listed.append({"step": checkpoint.step, "images": checkpoint.images, "metrics": dict(checkpoint.metrics), "bytes": size})
    return listed


def differing(recipes: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The keys whose values are not the same in all recipes, in the order of the recipe: key -> one value for each."""
    leaves = [dict(flat("", recipe)) for recipe in recipes]
    keys = dict.fromkeys(key for each in leaves for key in each)
    values = {key: [each.get(key, ABSENT) for each in leaves] for key in keys if key != "name"}
    return {key: row for key, row in values.items() if any(value != row[0] for value in row)}


def _summary(run: Run) -> Summary:
    recipe, stats = run.recipe, run.stats()
    metric = recipe["checkpoint"]["metric"]
    measured = [(line[f"val_{metric}"], line["images"]) for line in stats if line.get(f"val_{metric}") is not None]
    best = (max if HIGHER_IS_BETTER[metric] else min)(measured, key=lambda pair: pair[0], default=(None, None))
    last = {key: value for line in stats for key, value in line.items() if value is not None and key not in ("step", "images")}
    facts = read_json(run.path / names.ENVIRONMENT) or {}
    log = run.path / names.STATS
    return Summary(
        path=str(run.path),
        state="unfinished" if run.done is None else "done",
        step=stats[-1]["step"] if stats else None,
        images=stats[-1]["images"] if stats else None,
        length=recipe["training"]["images"],
        metric=metric,
        best=best[0],
        best_images=best[1],
        last=last,
        backend=facts.get("backend", recipe["backend"]),
        device=facts.get("device"),
        replicas=facts.get("replicas"),
        starts=len((run.path / names.HISTORY).read_bytes().splitlines()),
        updated=log.stat().st_mtime if log.exists() else None,
    )
