"""The class of each item: the folder it lies in."""

from __future__ import annotations

from collections.abc import Sequence

from unetkit.data.files import few
from unetkit.data.items import Item
from unetkit.recipe import schema


def class_numbers(data: schema.Data, items: Sequence[Item]) -> list[int]:
    """For each item the place of its class in `data.classes`; [] without classes. Items of no class have -1.

    The class of a file is the first folder of its name below the source's folder; noise from memory takes turns.
    """
    if not data.classes:
        return []
    if isinstance(data.source, schema.Synthetic):
        return [number % len(data.classes) for number in range(len(items))]
    known = {name: number for number, name in enumerate(data.classes)}
    return [known.get(item.name.replace("\\", "/").partition("/")[0] if "/" in item.name else "", -1) for item in items]


def class_problems(data: schema.Data, items: Sequence[Item]) -> list[str]:
    """Why these items cannot be told apart by class."""
    if not data.classes:
        return []
    if isinstance(data.source, schema.Emoji):
        return ["data.classes: the built-in pairs lie in no folders; use a source of files, one folder for each class"]
    numbers = class_numbers(data, items)
    strays = [item.name for item, number in zip(items, numbers, strict=True) if number < 0]
    if strays:
        listed = ", ".join(data.classes)
        return [
            f"data.classes: {len(strays):,} images lie in no folder of a class ({listed}): {few(strays)}; add theirs, or move them away"
        ]
    missing = [name for number, name in enumerate(data.classes) if number not in set(numbers)]
    return [f"data.classes: no image lies in the folder of {', '.join(missing)}; take it out"] if missing else []
