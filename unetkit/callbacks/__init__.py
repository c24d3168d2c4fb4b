"""Keras callbacks for any `fit`, and for `unetkit.fit`."""

from unetkit.callbacks.advisor import RecipeAdvisor, TPUAdvisor
from unetkit.callbacks.auto_batch import AutoBatch
from unetkit.callbacks.lowering import resolve_lowering
from unetkit.callbacks.memory_viewer import MemoryViewer
from unetkit.callbacks.recompile_alarm import RecompileAlarm

__all__ = ["AutoBatch", "MemoryViewer", "RecipeAdvisor", "RecompileAlarm", "TPUAdvisor", "resolve_lowering"]
