"""Loggers beside the run folder's own stats.jsonl, W&B and TensorBoard: each is off unless the recipe asks for it."""

from unetkit.logs.fan import Logs, open_logs, require_packages

__all__ = ["Logs", "open_logs", "require_packages"]
