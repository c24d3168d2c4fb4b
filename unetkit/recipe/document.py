"""YAML text, or plain Python values, as a tree of nodes that remember how and where they were written.

YAML 1.1 turns `no` into false and leaves `1e-4` as text, and PyYAML keeps the last of two equal keys without a word. So
nothing is converted here: a node keeps the scalar as it stands, and the reader, who knows what the key wants, decides.
"""

from __future__ import annotations

import codecs
import numbers
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from unetkit.recipe.problems import Findings, Place, Problem, RecipeError, join, nearest

SCALARS = ("null", "int", "float", "str", "timestamp")
MOST_NODES = 20_000  # aliases of aliases can make a short file endless


@dataclass(frozen=True, slots=True)
class Node:
    """One value.

    Attributes:
        value: None, a bool, a number (only from Python), text, a list of nodes or a dict of nodes.
        place: where it was written; for the value of a key, where the key stands.
        tag: what YAML takes it for: null, bool, int, float, str, timestamp, seq or map.
        written: the scalar as it stands in the text; None where it is quoted or came from Python.
    """

    value: Any
    place: Place
    tag: str
    written: str | None = None

    def __str__(self) -> str:
        """The value as an error shows it."""
        if isinstance(self.value, list):
            return f"a list of {len(self.value)}"
        if isinstance(self.value, dict):
            return "a section" if self.value else "an empty section"
        if self.value is None:
            return f"`{self.written}`" if self.written else "nothing"
        shown = f"`{self.written}`" if self.written is not None else repr(self.value)
        return shown if len(shown) <= 60 else f"{shown[:57]}..."


def load(source: str | os.PathLike[str] | Mapping[str, Any], found: Findings) -> Node:
    """The tree of a recipe: of the file at a path, of YAML text (a `str` with a line break or `: `) or of a dict.

    Raises:
        RecipeError: nothing can be read at all: no such file, not UTF-8, not YAML, empty, or not a mapping.
    """
    if isinstance(source, Mapping):
        return from_python(source, Place("recipe"))
    if (isinstance(source, str) and not source.strip()) or _is_text(source):
        node = from_text(str(source), "recipe", found)
        name = "recipe"
    else:
        name = os.fspath(source)
        node = from_text(_decoded(Path(source)), name, found)
    if node is None or (node.value is None and not node.written):
        raise _stop(Place(name), "the recipe is empty; `unetkit recipe new` writes a first one")
    if not isinstance(node.value, dict):
        raise _stop(node.place, f"a recipe is a mapping of keys such as `name: my-run`, and this is {node}")
    return node


def from_text(text: str, source: str, found: Findings, place: Place | None = None) -> Node | None:
    """The tree of YAML `text`; None where it holds nothing. `place` stands in for lines (an override has none)."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        return None if root is None else _Composer(source, found, place).node(root, "")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = place or Place(source, mark.line + 1 if mark else None)
        raise _stop(line, _syntax(error, text.splitlines(), mark)) from None
    except yaml.reader.ReaderError as error:
        line = place or Place(source, text.count("\n", 0, error.position) + 1)
        raise _stop(line, f"the character U+{error.character:04X} is not allowed in YAML; delete it") from None
    except RecursionError:
        raise _stop(place or Place(source), "nested too deeply to be read") from None


def from_python(value: Any, place: Place) -> Node:
    """The tree of plain Python values, as a notebook passes them."""
    if isinstance(value, Mapping):
        return Node({str(key): from_python(item, place) for key, item in value.items()}, place, "map")
    if isinstance(value, (list, tuple)):
        return Node([from_python(item, place) for item in value], place, "seq")
    if value is None or isinstance(value, (bool, str)):
        return Node(value, place, {type(None): "null", bool: "bool", str: "str"}.get(type(value), "str"))
    if isinstance(value, numbers.Integral):
        return Node(int(value), place, "int")
    if isinstance(value, numbers.Real):
        return Node(float(value), place, "float")
    if isinstance(value, os.PathLike):
        return Node(os.fspath(value), place, "str")
    return Node(value, place, type(value).__name__)


class _Composer:
    """Turns PyYAML's nodes into ours, and finds the keys that stand twice."""

    def __init__(self, source: str, found: Findings, place: Place | None) -> None:
        self.source, self.found, self.override = source, found, place
        self.open: list[int] = []
        self.count = 0

    def place(self, node: yaml.Node) -> Place:
        return self.override or Place(self.source, node.start_mark.line + 1)

    def node(self, node: yaml.Node, path: str, place: Place | None = None) -> Node:
        place = place or self.place(node)
        self.count += 1
        if id(node) in self.open or self.count > MOST_NODES:
            raise _stop(place, f"{path}: an alias (`*name`) that holds itself, or too many of them")
        tag = node.tag.removeprefix("tag:yaml.org,2002:")
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, tag, path, place)
        self.open.append(id(node))
        value: Any
        if isinstance(node, yaml.MappingNode):
            value = self.mapping(node, path)
        else:
            value = [self.node(item, f"{path}[{number}]") for number, item in enumerate(node.value)]
        self.open.pop()
        return Node(value, place, tag)

    def scalar(self, node: yaml.ScalarNode, tag: str, path: str, place: Place) -> Node:
        written = node.value if node.style is None else None
        known = node.value.lower() in yaml.SafeLoader.bool_values if tag == "bool" else tag in SCALARS
        if not known:
            self.found.add(place, path, f"the YAML tag `{node.tag}` is not known here; write the plain value")
        if tag == "null":
            return Node(None, place, tag, written)
        if tag == "bool" and known:
            return Node(yaml.SafeLoader.bool_values[node.value.lower()], place, tag, written)
        return Node(node.value, place, tag, written)

    def mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Node]:
        own: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key, value in node.value:
            place = self.place(key)
            if key.tag == "tag:yaml.org,2002:merge":
                merged = self.merge(value, path) | merged
            elif not isinstance(key, yaml.ScalarNode):
                self.found.add(place, path, "a key is a plain word, not a list or a section")
            elif key.value in own:
                first = own[key.value].place.line
                self.found.add(place, join(path, key.value), f"this key stands twice; the first is in line {first}. Keep one of them")
            else:
                own[key.value] = self.node(value, join(path, key.value), place)
        return merged | own

    def merge(self, node: yaml.Node, path: str) -> dict[str, Node]:
        """What `<<: *base` or `<<: [*one, *other]` brings in: of equal keys, the earlier mapping's."""
        if isinstance(node, yaml.SequenceNode):
            return {name: child for base in reversed(node.value) for name, child in self.merge(base, path).items()}
        if isinstance(node, yaml.MappingNode):
            return self.node(node, path).value  # type: ignore[no-any-return]
        self.found.add(self.place(node), path, "`<<` merges sections: give it an alias of one, as `<<: *base`")
        return {}


def _is_text(source: str | os.PathLike[str]) -> bool:
    return isinstance(source, str) and ("\n" in source or (": " in source and not os.path.exists(source)))


def _decoded(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise _stop(Place(str(path)), f"no such file{_near(path)}") from None
    except OSError as error:
        wanted = "; a recipe is a YAML file" if path.is_dir() else ""
        raise _stop(Place(str(path)), f"cannot be read: {error.strerror}{wanted}") from None
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise _stop(Place(str(path)), "this file is UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _stop(Place(str(path), line), f"byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8") from None


def _near(path: Path) -> str:
    """The recipes that a missing path may have meant: like-named ones beside it, or in the folder `recipes`."""
    here = path.parent if path.parent.is_dir() else Path()
    files = [file for folder in dict.fromkeys((here, Path("recipes"))) if folder.is_dir() for file in sorted(folder.glob("*.y*ml"))]
    close = nearest(path.stem, [file.stem for file in files])
    shown = [str(file) for file in files if close in (None, file.stem)][:5]
    return f"; near it: {', '.join(shown)}" if shown else ""


def _syntax(error: yaml.MarkedYAMLError, lines: list[str], mark: yaml.Mark | None) -> str:
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())] or "'\\t'" in str(error.problem):
        return "a tab stands where YAML wants spaces; indent with spaces"
    if "expected a single document" in str(error.context):
        return "a second document begins here (`---`); a recipe is one document"
    column = f" (column {mark.column + 1})" if mark else ""
    said = ", ".join(part for part in (error.context, error.problem) if part)
    return f"not YAML{column}: {said}"


def _stop(place: Place, message: str) -> RecipeError:
    return RecipeError([Problem(place, "", message)])
