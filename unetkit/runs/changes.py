"""What may differ between the recipe of a run and the one it is resumed with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unetkit.errors import UserError

# These keys, and those below them, say where and how a run computes, not what: they may change and are logged. Every
# other key changes the result. `accumulate` is here because the global batch is fixed beside it; the two lengths are
# here because a run may be made longer.
FREE_KEYS = (
    "name",
    "backend",
    "data.cache",
    "data.workers",
    "model.lowering",
    "model.packing",
    "training.images",
    "training.epochs",
    "training.accumulate",
    "training.remat",
    "training.steps_per_call",
    "training.callbacks",
    "checkpoint",
    "logging",
    "hardware",
    "tpu",
)
LENGTH_KEYS = ("training.images", "training.epochs")

ABSENT = "(not set)"


@dataclass(frozen=True)
class Change:
    """One key whose value differs."""

    key: str
    before: Any
    after: Any

    @property
    def allowed(self) -> bool:
        """Whether a run may be resumed with it."""
        return any(self.key == free or self.key.startswith(f"{free}.") for free in FREE_KEYS)

    def __str__(self) -> str:
        return f"{self.key}: {self.before!r} -> {self.after!r}"


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """The keys that differ between two resolved recipes, in the order of the recipe. A list is one value."""
    old, new = dict(flat("", before)), dict(flat("", after))
    return [
        Change(key, old.get(key, ABSENT), new.get(key, ABSENT)) for key in {**old, **new} if old.get(key, ABSENT) != new.get(key, ABSENT)
    ]


def refuse_forbidden(changes: list[Change], path: Path) -> None:
    """Raises UserError with the difference, and the way to start a new run instead, when a change is not allowed."""
    forbidden = [change for change in changes if not change.allowed]
    if forbidden:
        listed = "\n".join(f"  {change}" for change in forbidden)
        raise UserError(
            f"{path} was trained with another recipe, and what differs changes what is computed:\n{listed}\n"
            f"Put {'it' if len(forbidden) == 1 else 'them'} back to resume, or start a new run from its weights: "
            f"--run {free_name(path)} --init-from {path}"
        )


def free_name(path: Path) -> Path:
    """A name beside `path` that nothing has yet: runs/emoji-2."""
    number = 2
    while (candidate := path.parent / f"{path.name or 'run'}-{number}").exists():
        number += 1
    return candidate


def flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of nested sections below `path`, as (a.b.c, value). A list is a leaf."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from flat(f"{path}.{key}" if path else str(key), item)
    else:
        yield path, value
