"""The contract between an objective and the engines that train it."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

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

    scored_by_loss = False
    """Whether a validation measures the loss: where pictures take many passes, or have no one truth to be compared with."""

    def batch_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes per sample of what a step is given, as `prepare` leaves it."""
        stepped = self.in_step(self.main)
        return {"input": tuple(stepped.inputs[0].shape[1:]), "target": tuple(stepped.outputs[0].shape[1:])}

    def prepare(self, batch: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """What the host does with `input` and `target`, (b, h, w, c), before they go to the devices. `losses` takes either form.

        What the objective has no use for is left out.
        """
        return {name: batch[name] for name in ("input", "target")}

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
            (losses, parts): role -> (b,) float32, the loss each network minimises; and name -> (b,) float32 to log, `loss` among them.
        """
        raise NotImplementedError(f"{type(self).__name__} must fill losses(call, batch, noise).")

    def request(self, batch: Mapping[str, np.ndarray], seed: int, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """What `predict` needs to make one picture per row, made on the host: a function of (row, seed, number) alone.

        Args:
            batch: `input`, (b, h, w, c), and whatever else the data has.
            seed: of the noise, where there is any.
            numbers: (b,) whole numbers; pictures that differ in them alone differ in their noise alone.
        """
        return {"input": batch["input"]}

    def predict(self, call: Call, batch: Mapping[str, Tensor]) -> Tensor:
        """The pictures, (b, h, w, c) float32: what is sampled, evaluated and generated.

        Args:
            call: as of `losses`, but in inference mode, for the main network alone.
            batch: what `request` made.
        """
        return ops.cast(call(self.main, batch["input"]), "float32")
