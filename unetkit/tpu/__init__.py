"""Answers from the TPU compiler, without a TPU: memory, padding, op profile, step time. Public names load on first use."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unetkit.tpu.answer import Answer
    from unetkit.tpu.chips import Chip, chip
    from unetkit.tpu.html import page
    from unetkit.tpu.inspection import inspect, inspect_recipe
    from unetkit.tpu.packing_plan import plan
    from unetkit.tpu.terminal import text

_PUBLIC = {
    "inspect": "unetkit.tpu.inspection",
    "inspect_recipe": "unetkit.tpu.inspection",
    "Answer": "unetkit.tpu.answer",
    "Chip": "unetkit.tpu.chips",
    "chip": "unetkit.tpu.chips",
    "page": "unetkit.tpu.html",
    "plan": "unetkit.tpu.packing_plan",
    "text": "unetkit.tpu.terminal",
}

__all__ = ["Answer", "Chip", "chip", "inspect", "inspect_recipe", "page", "plan", "text"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; public names: {', '.join(__all__)}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value
