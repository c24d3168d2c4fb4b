"""A recipe as plain values and as YAML, with every default written out. Reading either back gives an equal recipe."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import yaml

from unetkit.recipe.schema import Recipe
from unetkit.recipe.values import NUMBER


def to_dict(recipe: Recipe) -> dict[str, Any]:
    """The recipe as dicts, lists and scalars, as JSON takes them."""
    return plain(recipe)  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    """A value of the recipe (a section, a list, a scalar) without our classes."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return copy.deepcopy(value)


def to_yaml(recipe: Recipe) -> str:
    """The recipe as YAML."""
    return yaml.dump(to_dict(recipe), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Sections as blocks, list items in one line each, and text that looks like a number quoted."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> yaml.SequenceNode:
        node = super().represent_sequence(tag, sequence, flow_style=not any(isinstance(item, (dict, list)) for item in sequence))
        for item in node.value:
            if isinstance(item, yaml.CollectionNode):
                item.flow_style = True
        return node

    def represent_text(self, text: str) -> yaml.ScalarNode:
        style = '"' if not text.isprintable() else "'" if NUMBER.fullmatch(text) else None  # line breaks are escaped, not folded
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)
