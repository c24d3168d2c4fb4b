"""Code that a recipe names: harmless in your own recipe, a question of trust in a folder that somebody gave you."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from unetkit.errors import UserError

# The keys whose value may be `package.module:Class`, wherever in the recipe they stand.
CODE_KEYS = frozenset({"block", "use"})


def code_names(recipe: Mapping[str, Any]) -> dict[str, str]:
    """The code that a recipe, as plain dictionaries, would import: key's path -> `package.module:Class`."""
    return dict(_walk("", recipe))


def require_code_allowed(recipe: Mapping[str, Any], path: Path, *, allow_code: bool) -> None:
    """Refuses to go on with a run folder that names code, unless its reader said that the code is trusted.

    Raises:
        UserError: the recipe names code and `allow_code` is false.
    """
    names = code_names(recipe)
    if names and not allow_code:
        listed = "\n".join(f"  {key}: {name}" for key, name in names.items())
        raise UserError(
            f"{path} names code that opening it would import and run:\n{listed}\n"
            "If you trust it, say so with --allow-code (in Python: allow_code=True)."
        )


def _walk(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            below = f"{path}.{key}" if path else str(key)
            if key in CODE_KEYS and isinstance(item, str) and ":" in item:
                yield below, item
            else:
                yield from _walk(below, item)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _walk(f"{path}[{index}]", item)
