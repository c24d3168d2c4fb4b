"""Objectives: what "good" means. Arrays in, one loss per sample out."""

from unetkit.objectives.adversarial import Adversarial
from unetkit.objectives.base import Objective
from unetkit.objectives.diffusion import Diffusion
from unetkit.objectives.flow import Flow
from unetkit.objectives.prediction import Prediction
from unetkit.objectives.translation import Translation

__all__ = ["Adversarial", "Diffusion", "Flow", "Objective", "Prediction", "Translation"]
