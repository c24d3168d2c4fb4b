"""Optimizers of tensorflow-addons 0.23."""

from unetkit.addons.optimizers.adaptive import LAMB, AdamW, NovoGrad, RectifiedAdam
from unetkit.addons.optimizers.wrapping import SWA, Lookahead, MovingAverage

__all__ = ["LAMB", "SWA", "AdamW", "Lookahead", "MovingAverage", "NovoGrad", "RectifiedAdam"]
