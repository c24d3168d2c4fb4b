"""Objectives: what "good" means. Arrays in, one loss per sample out."""

from unetkit.objectives.base import Objective
from unetkit.objectives.translation import Translation

__all__ = ["Objective", "Translation"]
