"""`--set section.key=value`: puts a value into the tree of a recipe before anything is checked."""

from __future__ import annotations

from unetkit.recipe import document
from unetkit.recipe.document import Node
from unetkit.recipe.kinds import Either, Kind, Section, Sequence, Variants, root
from unetkit.recipe.problems import Findings, Place, Problem, RecipeError


def put(node: Node, override: str, found: Findings) -> Node:
    """The recipe's tree with one override in it; the value is YAML, so lists and sections may be set too.

    Args:
        node: the recipe.
        override: `"section.key=value"`; items of a list by number: `"model.levels.0=48"`.
        found: receives the problem of an override that has no place to go; the tree is then returned as it was.
    """
    place = Place(f"--set {override}")
    path, equals, text = override.partition("=")
    names = path.strip().split(".")
    if not equals or not all(names):
        found.add(place, "", "expected SECTION.KEY=VALUE, such as optimizer.learning_rate=1e-4")
        return node
    try:
        value = document.from_text(text, place.source, found, place) or Node(None, place, "null", "")
        return _put(node, root(), names, value, "")
    except RecipeError as error:
        found.problems += error.problems
        return node


def _put(node: Node | None, kind: Kind | None, names: list[str], value: Node, path: str) -> Node:
    if not names:
        return value
    name, *rest = names
    here = f"{path}.{name}" if path else name
    if node is None or node.value is None:
        if isinstance(kind, Sequence):
            raise _no_place(value, here, f"`{path}` is not listed in the recipe; set the whole list: --set {path}=[...]")
        node = Node({}, value.place, "map")
    node = _written_out(node, kind)
    if isinstance(node.value, list):
        if not name.isdigit() or int(name) >= len(node.value):
            raise _no_place(value, here, f"`{path}` is a list of {len(node.value)}; its items are numbered from 0")
        items = list(node.value)
        items[int(name)] = _put(items[int(name)], _item(kind), rest, value, here)
        return Node(items, node.place, node.tag)
    if not isinstance(node.value, dict):
        raise _no_place(value, here, f"`{path}` is {node}, so nothing can be set inside it")
    return Node(node.value | {name: _put(node.value.get(name), _child(kind, node, name), rest, value, here)}, node.place, node.tag)


def _written_out(node: Node, kind: Kind | None) -> Node:
    """A section written as a bare word or number, in full: `source: emoji` as `source: {kind: emoji}`."""
    key = kind.by if isinstance(kind, Variants) else kind.short if isinstance(kind, Section) else None
    return Node({key: node}, node.place, "map") if key and not isinstance(node.value, (dict, list)) else node


def _child(kind: Kind | None, node: Node, name: str) -> Kind | None:
    if isinstance(kind, Variants):
        tag = node.value.get(kind.by)
        named = [kind.sections[tag.value]] if tag and tag.value in kind.sections else []
        return next((section.keys[name].kind for section in [*named, *kind.sections.values()] if name in section.keys), None)
    return kind.keys[name].kind if isinstance(kind, Section) and name in kind.keys else None


def _item(kind: Kind | None) -> Kind | None:
    options = kind.options if isinstance(kind, Either) else (kind,)
    return next((option.item for option in options if isinstance(option, Sequence)), None)


def _no_place(value: Node, path: str, message: str) -> RecipeError:
    return RecipeError([Problem(value.place, path, message)])
