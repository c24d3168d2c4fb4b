"""Pictures of a trained run by its objective's own way: one pass of the network, or a sampler's many. One shape, one compilation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unetkit import shapes
from unetkit.errors import UserError
from unetkit.inference.fixed import Fixed, Receptive
from unetkit.recipe import schema

if TYPE_CHECKING:
    from unetkit.build import Restored

SAMPLED = (schema.Flow, schema.Diffusion)


def is_sampled(recipe: schema.Recipe) -> bool:
    """Whether a run of this recipe makes its pictures from noise, in many passes of its network."""
    return isinstance(recipe.objective, SAMPLED)


def changed(recipe: schema.Recipe, *, steps: int | None = None, **changes: Any) -> schema.Recipe:
    """The recipe with another number of steps, guidance or sampler; None leaves one as it is.

    Raises:
        UserError: the objective has no such thing, or its condition was never hidden in training and so cannot be guided by.
    """
    changes = {name: value for name, value in {"sampler_steps": steps, **changes}.items() if value is not None}
    if not changes:
        return recipe
    goal = recipe.objective
    if not isinstance(goal, SAMPLED):
        named = " and ".join(f"--{name.removeprefix('sampler_')}" for name in changes)
        raise UserError(f"{named}: this run's objective is {goal.kind}, which makes a picture in one pass; leave it out")
    if changes.get("guidance", 1.0) != 1.0 and (goal.condition == "none" or goal.condition_dropout == 0.0):
        why = "it has no condition" if goal.condition == "none" else "it never trained without its condition (condition_dropout: 0)"
        raise UserError(f"--guidance: {changes['guidance']:g} cannot guide this run: {why}")
    return dataclasses.replace(recipe, objective=dataclasses.replace(goal, **changes))


class Sampler:
    """A run's pictures by batches of one shape.

    Args:
        restored: the run.
        size: of the pictures (None: the training size).
        batch: pictures at once (None: what suits the device); the last batch is filled up.

    Attributes:
        batch: pictures at once.
        sides: (h, w).
    """

    def __init__(self, restored: Restored, size: int | Sequence[int] | None = None, batch: int | None = None) -> None:
        from unetkit.compiled import compiled
        from unetkit.inference.fixing import rows_at_once

        self.sides = shapes.as_sides(restored.recipe.data.size if size is None else size if isinstance(size, int) else tuple(size))
        layer = restored.prediction(self.sides)
        self.objective, self._run = layer.objective, compiled(layer)
        self.batch = batch or rows_at_once(self.sides)

    def __call__(self, batch: dict[str, np.ndarray], seed: int, numbers: np.ndarray) -> np.ndarray:
        """One picture for each number, (n, h, w, c) float32: each a function of its row of `batch`, the seed and its number alone."""
        made = []
        for start in range(0, len(numbers), self.batch):
            taken = np.minimum(np.arange(start, start + self.batch), len(numbers) - 1)
            request = self.objective.request({name: value[taken] for name, value in batch.items()}, seed, numbers[taken])
            made.append(self._run(request)[: len(numbers) - start])
        return np.concatenate(made)


def fixed(restored: Restored, tile: int | Sequence[int] | None, batch: int | None, seed: int) -> Fixed:
    """A run that makes pictures from noise and an image, as what `Tiled` takes: every tile begins with the same noise."""
    sampler = Sampler(restored, tile, batch)

    def run(inputs: np.ndarray) -> np.ndarray:
        return sampler({"input": inputs}, seed, np.zeros(len(inputs), int))

    data = restored.recipe.data
    receptive = Receptive(None, restored.multiple_of, f"the sampler of objective {restored.recipe.objective.kind}")
    return Fixed(run, sampler.batch, sampler.sides, data.input_channels, data.target_channels, receptive)
