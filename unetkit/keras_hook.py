"""Makes a saved U-Net open by plain `keras.models.load_model` wherever unetkit was imported, before or after Keras.

Keras opens only classes that are registered with it, which happens when `unetkit.models` is imported. `import unetkit` itself
must not load Keras: `unetkit --help` would take seconds, and the recipe could no longer choose the backend. So the registration
waits until somebody imports Keras.
"""

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def install() -> None:
    """Imports `unetkit.models` now if Keras is loaded, else as soon as it is."""
    if "keras" in sys.modules:
        importlib.import_module("unetkit.models")
    else:
        sys.meta_path.insert(0, _AfterKeras())


class _AfterKeras(MetaPathFinder):
    """Finds Keras where the other finders do, and has `unetkit.models` imported once it is loaded."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "keras":
            return None
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is None or spec.loader is None:
            return None
        load_keras = spec.loader.exec_module

        def load_keras_then_register(module: ModuleType) -> None:
            load_keras(module)
            sys.meta_path.remove(self)
            importlib.import_module("unetkit.models")

        spec.loader.exec_module = load_keras_then_register  # type: ignore[method-assign]
        return spec
