"""How the schema declares its keys: defaults, bounds, forms of text, variants and short forms."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

REQUIRED = dataclasses.MISSING

DOTTED_CLASS = r"\w+(\.\w+)*:\w+(\.\w+)*"
CLASS_FORM = "a class as package.module:Class"
FOLDER_NAME = r'[^\s./\\:*?"<>|\x00-\x1f-]([^/\\:*?"<>|\x00-\x1f]*[^\s./\\:*?"<>|\x00-\x1f])?'
NAME_FORM = 'a name for a folder: none of / \\ : * ? " < > | in it, no dot or hyphen first'


@dataclass(frozen=True)
class Tagged:
    """Marks a union of sections that are told apart by the value of one key."""

    by: str


@dataclass(frozen=True)
class Short:
    """Marks a section that may be written as one bare value of this key: `size: 64`."""

    to: str


def key(
    default: Any = REQUIRED,
    help: str = "",
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    pattern: str | None = None,
    form: str | None = None,
) -> Any:
    """Declares one key.

    `least`/`most` are inclusive bounds, `above`/`below` exclusive ones (of each item in a list); `pattern` is what a text
    must match from end to end, and `form` says that in words.
    """
    rules = (("least", least), ("most", most), ("above", above), ("below", below), ("pattern", pattern), ("form", form))
    return dataclasses.field(default=default, metadata={"help": help} | {n: v for n, v in rules if v is not None})


def section(cls: type, help: str = "") -> Any:
    """Declares a sub-section that, left out, has all its defaults; without `help`, its docstring says what it is."""
    return dataclasses.field(default_factory=cls, metadata={"help": help})
