"""The training step up to its gradients, as one pure function that both engines share.

    (weights, batch, step number) -> gradients of every network, new non-trainable values, sums to log

Nothing here depends on how many replicas share the work: per-sample losses are summed and divided by the *global* batch,
so an engine adds the results of its replicas and is done. Random numbers are keyed, never carried: each Keras
`SeedGenerator` inside the networks is set from (seed, step, micro-batch, replica) at every step, so dropout differs
between replicas and a resumed run repeats it exactly without any saved generator.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import keras
from keras import ops

from unetkit.objectives import Objective

Tensor = Any
Weights = dict[str, list[Tensor]]

SEED_STATE = "seed_generator_state"
DRAWS_PER_CALL = 64  # a network called twice in a step advances its generators; keyed states stay this far apart


@dataclass(frozen=True)
class Place:
    """Where in the run a micro-batch stands. All but the counts may be traced scalars."""

    step: Tensor
    micro: Tensor = 0
    micros: int = 1
    replica: Tensor = 0
    replicas: int = 1


def is_seed(variable: keras.Variable) -> bool:
    """Whether a non-trainable variable is the state of a `SeedGenerator`."""
    return variable.path.endswith(SEED_STATE)


def keyed_seed(seed: int, label: str, place: Place, dtype: str) -> Tensor:
    """Two integers that no other (label, step, micro-batch, replica) of the run has."""
    first = crc32(f"{seed}/{label}".encode()) & 0x7FFFFFFF
    count = (place.step * place.micros + place.micro) * place.replicas + place.replica
    return ops.stack([ops.cast(first, dtype), ops.cast(count * DRAWS_PER_CALL, dtype)])


class Step:
    """The step of one objective.

    Args:
        objective: networks and losses.
        seed: the recipe's seed.
        global_batch: images per optimizer step over all replicas and micro-batches.
        differentiate: `(function, weights) -> (result, gradients)` of the engine. `function(weights)` returns
            `(losses by role, anything)`; gradients are those of losses[role] with respect to weights[role].
        loss_scale: optional `loss -> scaled loss`, for float16.
    """

    def __init__(self, objective: Objective, *, seed: int, global_batch: int, differentiate: Callable, loss_scale: Callable | None = None):
        self.objective, self.seed, self.global_batch = objective, seed, global_batch
        self.differentiate = differentiate
        self.loss_scale = loss_scale or (lambda role, loss: loss)
        self.noise = keras.random.SeedGenerator(0, name="noise")

    def gradients(
        self, trainable: Weights, other: Weights, batch: Mapping[str, Tensor], place: Place
    ) -> tuple[Weights, Weights, dict[str, Tensor]]:
        """One micro-batch's share of the step.

        Args:
            trainable, other: values of `trainable_variables` and `non_trainable_variables`, by role.
            batch: `input` and `target`, (b, h, w, c), this replica's samples.
            place: which step, micro-batch and replica this is.

        Returns:
            (gradients, other, sums): gradients as `trainable`; new non-trainable values; and name -> scalar, to be added
            up over micro-batches and replicas.
        """
        noise = self._draw(batch, place)

        def losses_of(weights: Weights) -> tuple[dict[str, Tensor], Any]:
            values = {role: self._seeded(role, other[role], place) for role in self.objective.networks}

            def call(role: str, *inputs: Tensor) -> Tensor:
                network = self.objective.in_step(role)
                output, values[role] = network.stateless_call(weights[role], values[role], *inputs, training=True)
                return output

            losses, parts = self.objective.losses(call, batch, noise)
            share = {role: ops.sum(loss) / self.global_batch for role, loss in losses.items()}
            sums = {name: ops.sum(value) / self.global_batch for name, value in parts.items()}
            return {role: self.loss_scale(role, loss) for role, loss in share.items()}, (values, sums)

        (_, (values, sums)), gradients = self.differentiate(losses_of, trainable)
        return gradients, values, sums

    def _seeded(self, role: str, values: Sequence[Tensor], place: Place) -> list[Tensor]:
        variables = self.objective.networks[role].non_trainable_variables
        return [
            keyed_seed(self.seed, f"{role}/{index}", place, variable.dtype) if is_seed(variable) else value
            for index, (variable, value) in enumerate(zip(variables, values, strict=True))
        ]

    def _draw(self, batch: Mapping[str, Tensor], place: Place) -> dict[str, Tensor]:
        """This replica's rows of the micro-batch's noise. Every replica draws for all of them, so their count does not matter."""
        wanted = self.objective.draws({name: tuple(value.shape[1:]) for name, value in batch.items()})
        rows = next(iter(batch.values())).shape[0]
        everyone = Place(step=place.step, micro=place.micro, micros=place.micros)
        noise = {}
        for name, shape in wanted.items():
            state = keyed_seed(self.seed, f"noise/{name}", everyone, self.noise.state.dtype)
            with keras.StatelessScope(state_mapping=[(self.noise.state, state)]):
                full = keras.random.normal((rows * place.replicas, *shape), seed=self.noise)
            start = [place.replica * rows, *([0] * len(shape))]
            noise[name] = ops.slice(full, start, (rows, *shape))
        return noise


def add(left: Any, right: Any) -> Any:
    """Adds two equal trees of tensors."""
    return keras.tree.map_structure(ops.add, left, right)
