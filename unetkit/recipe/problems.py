"""What is wrong with a recipe: every problem with its place, collected and raised as one error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from unetkit.errors import UserError


class Place(NamedTuple):
    """Where a value was written: a line of a file, or an override (`line` is None)."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True)
class Problem:
    """One thing to mend: where it stands, the path of its key (`optimizer.learning_rate`, or "") and what is wrong with it."""

    place: Place
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.path}: {self.message}" if self.path else f"{self.place}: {self.message}"


class RecipeError(UserError):
    """A recipe that cannot be used. `problems` holds all that was found, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.place.line is None, problem.place.line or 0)))
        listed = "\n".join(map(str, self.problems))
        super().__init__(listed if len(self.problems) == 1 else f"{len(self.problems)} problems in the recipe:\n{listed}")

    def __reduce__(self) -> tuple[type[RecipeError], tuple[tuple[Problem, ...]]]:
        return type(self), (self.problems,)  # an exception is pickled by its message, from which it could not be made again


@dataclass
class Findings:
    """Collects problems while a recipe is read, so that all of them are told at once."""

    problems: list[Problem] = field(default_factory=list)
    doubtful: list[str] = field(default_factory=list)

    def add(self, place: Place, path: str, message: str) -> None:
        self.problems.append(Problem(place, path, message))

    def doubt(self, path: str) -> None:
        """Notes a key whose value is not known because of a problem told elsewhere: it stands there misspelt."""
        self.doubtful.append(path)

    def touches(self, path: str) -> bool:
        """Whether the value at `path` is in doubt, or that of a section around it or of an item inside it."""
        troubled = [*self.doubtful, *(problem.path for problem in self.problems)]
        return any(inside(path, other) or inside(other, path) for other in troubled)

    def raise_if_any(self) -> None:
        if self.problems:
            raise RecipeError(self.problems)


def join(path: str, name: str) -> str:
    """The path of key `name` inside the section at `path`."""
    return f"{path}.{name}" if path else name


def inside(path: str, outer: str) -> bool:
    """Whether `path` is `outer` or lies within it."""
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The one of `words` that `word` most likely meant; None where none is near."""
    import difflib  # only errors need it, and a command should start at once

    plain = {candidate.lower().replace("-", "_"): candidate for candidate in words}
    close = difflib.get_close_matches(word.lower().replace("-", "_"), plain, n=1, cutoff=0.6)
    return plain[close[0]] if close else None
