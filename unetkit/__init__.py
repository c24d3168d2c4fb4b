"""unetkit: U-Net image generation with Keras 3, from one YAML recipe. Public names load on first use."""

import importlib
from typing import TYPE_CHECKING, Any

from unetkit import keras_hook

__version__ = "0.1.0"

if TYPE_CHECKING:
    from unetkit.errors import LimitError, UnetkitError, UserError, WorkError
    from unetkit.fitting import fit
    from unetkit.inference import evaluate_run, generate
    from unetkit.recipe import Recipe, RecipeError
    from unetkit.recipe import read as read_recipe

_PUBLIC = {
    "fit": "unetkit.fitting:fit",
    "generate": "unetkit.inference:generate",
    "evaluate_run": "unetkit.inference:evaluate_run",
    "read_recipe": "unetkit.recipe:read",
    "Recipe": "unetkit.recipe:Recipe",
    "RecipeError": "unetkit.recipe:RecipeError",
    "UnetkitError": "unetkit.errors:UnetkitError",
    "UserError": "unetkit.errors:UserError",
    "WorkError": "unetkit.errors:WorkError",
    "LimitError": "unetkit.errors:LimitError",
}
"""Where each public name lives. None of them is also the name of a module here: importing that would hide the function."""

__all__ = [
    "LimitError",
    "Recipe",
    "RecipeError",
    "UnetkitError",
    "UserError",
    "WorkError",
    "evaluate_run",
    "fit",
    "generate",
    "read_recipe",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; public names: {', '.join(__all__)}")
    module, _, attribute = _PUBLIC[name].partition(":")
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


keras_hook.install()
