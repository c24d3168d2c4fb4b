"""The contract between an objective and the engines that train it."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

Tensor = Any
Call = Callable[..., Tensor]


class Objective:
    """Says which networks are trained, which random numbers a step needs, and what each network's loss is.

    An objective is pure: everything it uses comes in as an argument, and it never averages over the batch. The engine
    divides the sum of the per-sample losses by the *global* batch, so a loss means the same on one replica and on eight.

    Subclasses fill `losses`, and `draws` when they need noise.

    Args:
        networks: the networks by role. Each is trained on its own entry of `losses`, by its own optimizer. The first one
            is the one that makes images: it is what is sampled, averaged and exported.

    Attributes:
        views: other models of the same variables, by role, that a training step runs in a network's place.
    """

    def __init__(self, networks: Mapping[str, keras.Model]) -> None:
        if not networks:
            raise ValueError("An objective needs at least one network.")
        self.networks = dict(networks)
        self.views: dict[str, keras.Model] = {}

    @property
    def main(self) -> str:
        """Role of the network that makes images."""
        return next(iter(self.networks))

    def in_step(self, role: str) -> keras.Model:
        """The model that a training step runs for a role: its view, or the network itself."""
        return self.views.get(role, self.networks[role])

    def prepare(self, batch: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """What the host does with `input` and `target`, (b, h, w, c), before they go to the devices. `losses` takes either form."""
        return batch

    def draws(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Standard-normal noise that one sample needs: name -> shape. `shapes` holds the batch's shapes per sample."""
        return {}

    def losses(self, call: Call, batch: Mapping[str, Tensor], noise: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Losses of one batch.

        Args:
            call: `call(role, *inputs)` runs a network in training mode, with the weights of this step.
            batch: `input` (b, h, w, c) and `target` (b, h, w, c), float32 in [-1, 1].
            noise: what `draws` asked for, with a leading b.

        Returns:
            (losses, parts): role -> (b,) float32, the loss each network minimises; and name -> (b,) float32 to log.
        """
        raise NotImplementedError(f"{type(self).__name__} must fill losses(call, batch, noise).")
