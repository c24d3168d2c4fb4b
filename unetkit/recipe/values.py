"""Single values: what a scalar of the recipe means to a key that wants a number, a word, true or false, or text."""

from __future__ import annotations

import math
import re
from typing import Any

from unetkit.recipe.document import Node
from unetkit.recipe.kinds import Boolean, Choice, Null, Number, Text
from unetkit.recipe.problems import Findings, nearest

NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9](?:_?[0-9])*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
"""Decimal numbers, `1e-4` and `2e5` among them (which YAML 1.1 leaves as text), `010` and `1:30` not (octal and base 60 there)."""

LONGEST_NUMBER = 40


class Refused(Exception):
    """The value is not of the wanted kind. The message, which may be empty, says what would be."""


def scalar(kind: Null | Boolean | Number | Text | Choice, node: Node) -> Any:
    """The Python value of `node` for a key of this kind.

    Raises:
        Refused: it is none.
    """
    if isinstance(kind, Null):
        if node.value is not None:
            raise Refused
        return None
    if isinstance(kind, Boolean):
        return _boolean(node)
    if isinstance(kind, Number):
        return _number(kind, node)
    return _text(kind, node) if isinstance(kind, Text) else _choice(kind, node)


def number(node: Node) -> int | float | None:
    """The number that `node` spells; None where it spells none (true and false are no numbers)."""
    value = node.value
    if isinstance(value, str):
        text = value.strip()
        if len(text) > LONGEST_NUMBER or not NUMBER.fullmatch(text):
            return None
        value = int(text) if re.fullmatch(r"[-+]?[0-9_]+", text) else float(text)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def plain(node: Node, path: str, found: Findings) -> Any:
    """A free value, as in `block_args`: null, true, a number, text, or lists and sections of these."""
    if isinstance(node.value, dict):
        return {name: plain(child, f"{path}.{name}", found) for name, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item, f"{path}[{index}]", found) for index, item in enumerate(node.value)]
    spelled = number(node) if node.written is not None or node.tag in ("int", "float") else None
    if spelled is not None:
        return spelled
    if node.tag in ("null", "bool", "str"):
        return node.value
    found.add(node.place, path, f"expected a plain value, got {node}: {_finite_or_quoted(node)}")
    return None


def _number(kind: Number, node: Node) -> int | float:
    value = number(node)
    if value is None:
        raise Refused(_finite_or_quoted(node) if node.tag in ("int", "float") else _number_within(node))
    if kind.whole:
        if value != int(value):
            raise Refused(f"the nearest are {math.floor(value)} and {math.ceil(value)}")
        value = int(value)
    else:
        value = float(value)
    if not kind.holds(value):
        raise Refused
    return value


def _number_within(node: Node) -> str:
    """The number that a text such as `1e-4x` begins with."""
    start = NUMBER.match(node.value.strip()) if isinstance(node.value, str) else None
    if start and len(start.group()) == len(node.value.strip()):
        return "numbers here are finite, and spelt in 40 characters at most"
    return f"write {start.group()}" if start else ""


def _finite_or_quoted(node: Node) -> str:
    text = str(node.value).lower()
    if "nan" in text or "inf" in text:
        return "numbers here are finite"
    return "write it as a plain decimal number, or quote it if it is text"


def _boolean(node: Node) -> bool:
    if isinstance(node.value, bool):
        return node.value
    guess = dict.fromkeys(("true", "yes", "on", "y", "1"), "true") | dict.fromkeys(("false", "no", "off", "n", "0"), "false")
    meant = guess.get(str(node.value).strip().lower())
    raise Refused(f"write {meant}, without quotes" if meant else "")


def _text(kind: Text, node: Node) -> str:
    if node.tag != "str":
        if isinstance(node.value, (dict, list)) or node.value is None:
            raise Refused
        written = node.written if node.written is not None else str(node.value)
        raise Refused(f"YAML takes it for {_yaml_name(node)}; quote it: '{written}'")
    text: str = node.value
    if not text.strip():
        raise Refused("it is empty")
    if kind.pattern and not re.fullmatch(kind.pattern, text):
        raise Refused
    return text


def _choice(kind: Choice, node: Node) -> str | int:
    if isinstance(node.value, bool) and kind.is_switch:  # YAML reads a bare `on` as true
        return "on" if node.value else "off"
    if isinstance(node.value, (dict, list)) or node.value is None:
        raise Refused
    spelled = node.written if node.written is not None else node.value
    for value in kind.values:
        if number(node) == value if isinstance(value, int) else spelled == value:
            return value
    close = nearest(str(spelled), map(str, kind.values))
    raise Refused(f"did you mean `{close}`?" if close else "")


def _yaml_name(node: Node) -> str:
    return {"bool": str(node.value).lower(), "int": "a number", "float": "a number", "timestamp": "a date"}.get(node.tag, f"a {node.tag}")
