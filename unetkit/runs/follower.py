"""A run folder as the hosts see it that do not write: what the first one read from it, and nothing to write with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class FollowedStart:
    """The checkpoint that the first host goes on from; its arrays come over the network, not from the disk."""

    step: int
    images: int
    metrics: Mapping[str, float]
    meta: Mapping[str, Any]
    groups: tuple[str, ...] = ()

    def arrays(self, group: str) -> dict[str, np.ndarray]:
        """None are here."""
        return {}


class Silence:
    """A log that writes nothing."""

    def write(self, line: Mapping[str, Any]) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Follower:
    """See `RunFolder`, whose part that a session uses this is. Made from what `RunFolder.told` said on the first host."""

    path: Path
    status: str
    start: FollowedStart | None
    done: Mapping[str, Any] | None
    messages: tuple[str, ...] = ()
    log: Silence = field(default_factory=Silence)

    @classmethod
    def of(cls, path: Path, told: Mapping[str, Any]) -> Follower:
        """From the first host's words."""
        start = told["start"]
        return cls(path, told["status"], start and FollowedStart(**start), told["done"])

    def note_environment(self, **facts: Any) -> None:
        """Nothing: the first host writes it."""

    def finish(self, result: Mapping[str, Any]) -> None:
        """Nothing: the first host writes it."""

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is open."""
