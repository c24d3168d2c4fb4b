"""Every key of the recipe as Markdown tables, for docs/recipe.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby

from unetkit.recipe.kinds import Arguments, Choice, Either, KeyPath, Kind, Section, Sequence, Text, Variants, every_key
from unetkit.recipe.writer import plain


def markdown() -> str:
    """One table per section: key, what it takes, default, meaning. Keys that several variants share stand once."""
    return "\n\n".join("\n".join(_table(path, list(keys))) for path, keys in groupby(_ordered(), key=lambda item: item.section))


def _ordered() -> list[KeyPath]:
    """All keys, with those of one section side by side, in the order in which the sections first come."""
    sections = list(dict.fromkeys(item.section for item in every_key()))
    return sorted(every_key(), key=lambda item: sections.index(item.section))


def _table(path: str, keys: list[KeyPath]) -> Iterator[str]:
    yield f"### {f'`{path}`' if path else 'The top'}\n"
    yield "| key | takes | default | meaning |\n|---|---|---|---|"
    variants = list(dict.fromkeys(item.variant for item in keys))
    rows: dict[tuple[str, str, str, str], list[str | None]] = {}
    for item in keys:
        if item.variant and isinstance(item.key.kind, Choice) and item.key.kind.values == (item.variant,):
            continue  # the tag, told in a row of its own where the section is declared
        default = "**required**" if item.key.required else f"`{_default(item)}`"
        rows.setdefault((item.key.name, _takes(item.key.kind), default, item.key.help), []).append(item.variant)
    for (name, takes, default, meaning), having in rows.items():
        only = "" if having == variants else f"{', '.join(map(str, having))}: "
        yield f"| `{name}` | {takes} | {default} | {only}{meaning} |".replace("|  |", "| |")


def _default(item: KeyPath) -> str:
    value = plain(item.key.default())
    if isinstance(item.key.kind, Section):
        return "{}"
    if isinstance(item.key.kind, Variants):
        return str(value[item.key.kind.by])
    if isinstance(item.key.kind, Sequence) and isinstance(item.key.kind.item, Section) and item.key.kind.item.short:
        return json.dumps([entry[item.key.kind.item.short] for entry in value])
    return value if isinstance(value, str) else json.dumps(value)


def _takes(kind: Kind) -> str:
    match kind:
        case Section():
            return f"`{kind.short}`, or a section, below" if kind.short else "a section, below"
        case Variants():
            return f"{', '.join(f'`{tag}`' for tag in kind.sections)}: a word, or a section with `{kind.by}`"
        case Choice():
            return ", ".join(f"`{value}`" for value in kind.values)
        case Sequence():
            return f"a list{'' if kind.length is None else f' of {kind.length}'}: {_takes(kind.item)}"
        case Either():
            return " or ".join(map(_takes, kind.options))
        case Text():
            return "text"
        case Arguments():
            return "any keys"
        case _:
            return str(kind)
