"""The strict reader: YAML, text or a dict in; a frozen `Recipe` out, or one error that tells every problem.

It walks the tree of what was written beside the kinds of the schema. A value in doubt is replaced by its default so that
the walk can go on; nothing of that is ever returned, because any problem ends in `RecipeError`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from unetkit.recipe import checks, document, overriding, unknown, values
from unetkit.recipe.document import Node
from unetkit.recipe.kinds import Arguments, Boolean, Choice, Either, Key, Kind, Null, Number, Section, Sequence, Text, Variants, root
from unetkit.recipe.problems import Findings, Place, join
from unetkit.recipe.schema import Recipe
from unetkit.recipe.writer import to_dict


def read(source: str | os.PathLike[str] | Mapping[str, Any] | Recipe, overrides: Iterable[str] = ()) -> Recipe:
    """Reads a recipe and checks all of it.

    Args:
        source: the path of a YAML file, YAML text, a dict, or a `Recipe` made in Python.
        overrides: `"section.key=value"`, the value in YAML, applied in order before anything is checked.

    Returns:
        The recipe with every default filled in.

    Raises:
        RecipeError: with every problem found: its place, its path, what came and what is known.
    """
    found = Findings()
    node = document.load(to_dict(source) if isinstance(source, Recipe) else source, found)
    for override in overrides:
        node = overriding.put(node, override, found)
    recipe: Recipe = _section(root(), node, "", found)
    checks.run(recipe, found, lambda path: _place(node, path))
    found.raise_if_any()
    return recipe


def _value(kind: Kind, node: Node, path: str, found: Findings, default: Any = None) -> Any:
    """The value of `node`; `default` where a problem was found, or as the variant to assume where none is named."""
    if isinstance(kind, Either):
        return _either(kind, node, path, found, default)
    if isinstance(kind, Variants):
        return _variant(kind, node, path, found, default)
    if isinstance(kind, Section):
        if kind.short and not isinstance(node.value, (dict, list)):
            node = Node({kind.short: node}, node.place, "map")
        if isinstance(node.value, dict):
            return _section(kind, node, path, found)
    elif isinstance(kind, Sequence):
        if isinstance(node.value, list) and kind.length in (None, len(node.value)):
            return tuple(_value(kind.item, item, f"{path}[{index}]", found) for index, item in enumerate(node.value))
    elif isinstance(kind, Arguments):
        if isinstance(node.value, dict):
            return values.plain(node, path, found)
    else:
        try:
            return values.scalar(kind, node)
        except values.Refused as refusal:
            found.add(node.place, path, _expected(kind, node, str(refusal)))
            return default
    found.add(node.place, path, _expected(kind, node))
    return default


def _either(kind: Either, node: Node, path: str, found: Findings, default: Any) -> Any:
    attempts = []
    for option in kind.options:
        attempt = Findings()
        value = _value(option, node, path, attempt, default)
        if not attempt.problems:
            return value
        attempts.append((option, attempt))
    for option, attempt in attempts:
        meant = (list, Sequence), (dict, Section)
        if any(isinstance(node.value, written) and isinstance(option, kinds) for written, kinds in meant):
            found.problems += attempt.problems
            return default
    hints = dict.fromkeys(_hint(option, node) for option, _ in attempts)
    found.add(node.place, path, _expected(kind, node, "; ".join(filter(None, hints))))
    return default


def _hint(option: Kind, node: Node) -> str:
    if not isinstance(option, (Null, Boolean, Number, Text, Choice)):
        return ""
    try:
        values.scalar(option, node)
    except values.Refused as refusal:
        return str(refusal)
    return ""


def _variant(kind: Variants, node: Node, path: str, found: Findings, default: Any) -> Any:
    if node.value is not None and not isinstance(node.value, (dict, list)):
        node = Node({kind.by: node}, node.place, "map")  # `source: emoji` is short for `source: {kind: emoji}`
    if not isinstance(node.value, dict):
        found.add(node.place, path, _expected(kind, node))
        return default
    tag = node.value.get(kind.by)
    if tag is None:
        named = getattr(default, kind.by, None)
        if named is None:
            return _untold_variant(kind, node, path, found)
    else:
        attempt = Findings()
        named = _value(Choice(tuple(kind.sections)), tag, join(path, kind.by), attempt)
        found.problems += attempt.problems
        if attempt.problems:
            return default
    return _section(kind.sections[named], node, path, found, kind)


def _untold_variant(kind: Variants, node: Node, path: str, found: Findings) -> None:
    """A section that does not say which variant it is, where none is the default: what can be told all the same."""
    meant = _unknown_keys(unknown.any_of(kind), node, path, found, None)
    if kind.by in meant:
        found.doubt(path)
        return
    guess = unknown.fitting_variant(kind, node.value)
    hint = f"; these keys fit `{kind.by}: {guess}`" if guess else ""
    found.add(node.place, join(path, kind.by), f"missing: one of {', '.join(kind.sections)}{hint}")


def _unknown_keys(kind: Section, node: Node, path: str, found: Findings, variants: Variants | None) -> set[str | None]:
    """Tells the keys of `node` that the section does not have; returns the keys that were meant by them."""
    meant = set()
    for name, child in node.value.items():
        if name not in kind.keys:
            explanation = unknown.explain(name, kind, path, variants)
            meant.add(explanation.meant)
            found.add(child.place, join(path, name), explanation.message)
    return meant


def _section(kind: Section, node: Node, path: str, found: Findings, variants: Variants | None = None) -> Any:
    meant = _unknown_keys(kind, node, path, found, variants)
    given = {}
    for name, key in kind.keys.items():
        child = node.value.get(name)
        if child is not None:
            given[name] = _key(key, child, join(path, name), found)
        elif not key.required:
            given[name] = key.default()
        else:
            given[name] = None
            if name in meant:
                found.doubt(join(path, name))
            else:
                found.add(node.place, join(path, name), f"missing: {key.help or 'this key has no default'} ({key.kind})")
    return kind.cls(**given)


def _key(key: Key, node: Node, path: str, found: Findings) -> Any:
    default = None if key.required else key.default()
    if node.value is None and not _takes_null(key.kind):
        without = "" if key.required else ", or leave it out to have the default"
        none = " (`none` switches it off)" if isinstance(key.kind, Choice) and "none" in key.kind.values else ""
        found.add(node.place, path, f"expected {key.kind}; got {node}: give a value{none}{without}")
        return default
    return _value(key.kind, node, path, found, default)


def _takes_null(kind: Kind) -> bool:
    return isinstance(kind, Null) or (isinstance(kind, Either) and any(map(_takes_null, kind.options)))


def _expected(kind: Kind, node: Node, hint: str = "") -> str:
    return f"expected {kind}; got {node}{f': {hint}' if hint else ''}"


def _place(node: Node, path: str) -> Place:
    """Where the value at `path`, or the innermost section around it that was written, stands."""
    for name in path.split("."):
        if not isinstance(node.value, dict) or name not in node.value:
            break
        node = node.value[name]
    return node.place
