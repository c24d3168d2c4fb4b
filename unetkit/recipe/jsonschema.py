"""The recipe as JSON Schema (draft 2020-12), for editors that complete and check keys while one types.

It knows every key, type, bound and default. What holds between keys (`checks.py`) only the reader knows.
"""

from __future__ import annotations

from typing import Any

from unetkit.recipe.kinds import (
    Arguments,
    Boolean,
    Choice,
    Either,
    Key,
    Kind,
    Null,
    Number,
    Section,
    Sequence,
    Text,
    Variants,
    about_section,
    root,
)
from unetkit.recipe.values import NUMBER
from unetkit.recipe.writer import plain

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema as a dict; sections are under `$defs` by the name of their dataclass."""
    sections: dict[str, Any] = {}
    recipe = _section(root(), sections)
    return {"$schema": DRAFT, "title": "unetkit recipe", **recipe, "$defs": sections}


def _kind(kind: Kind, sections: dict[str, Any]) -> dict[str, Any]:
    match kind:
        case Null():
            return {"type": "null"}
        case Boolean():
            return {"type": "boolean"}
        case Number():
            return _number(kind)
        case Text():
            return {"type": "string", "minLength": 1} | ({"pattern": f"^({kind.pattern})$"} if kind.pattern else {})
        case Choice():
            return {"enum": [*kind.values, *((True, False) if kind.is_switch else ())]}  # YAML 1.1 reads a bare `on` as true
        case Sequence():
            length = {} if kind.length is None else {"minItems": kind.length, "maxItems": kind.length}
            return {"type": "array", "items": _kind(kind.item, sections), **length}
        case Arguments():
            return {"type": "object"}
        case Section():
            section = _reference(kind, sections)
            return {"anyOf": [_kind(kind.keys[kind.short].kind, sections), section]} if kind.short else section
        case Variants():
            return _variants(kind, sections)
        case Either():
            return {"anyOf": [_kind(option, sections) for option in kind.options]}


def _number(kind: Number) -> dict[str, Any]:
    """A number, or text that spells one: YAML 1.1 leaves `1e-4` as text, and the reader takes it for the number it is."""
    words = {"minimum": kind.least, "maximum": kind.most, "exclusiveMinimum": kind.above, "exclusiveMaximum": kind.below}
    bounds = {word: bound for word, bound in words.items() if bound is not None}
    return {"type": ["integer" if kind.whole else "number", "string"], "pattern": f"^{NUMBER.pattern}$", **bounds}


def _variants(kind: Variants, sections: dict[str, Any]) -> dict[str, Any]:
    words = [tag for tag, section in kind.sections.items() if not any(key.required for key in section.keys.values())]
    return {"anyOf": [{"enum": words}, *(_reference(section, sections) for section in kind.sections.values())]}


def _reference(kind: Section, sections: dict[str, Any]) -> dict[str, Any]:
    name = kind.cls.__name__
    if name not in sections:
        sections[name] = _section(kind, sections)
    return {"$ref": f"#/$defs/{name}"}


def _section(kind: Section, sections: dict[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "description": about_section(kind),
        "properties": {key.name: _property(key, sections) for key in kind.keys.values()},
        "additionalProperties": False,
    }
    required = [key.name for key in kind.keys.values() if key.required]
    return schema | ({"required": required} if required else {})


def _property(key: Key, sections: dict[str, Any]) -> dict[str, Any]:
    about = {"description": key.help} if key.help else {}
    return _kind(key.kind, sections) | about | ({} if key.required else {"default": plain(key.default())})
