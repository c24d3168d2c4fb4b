"""What the loop asks of an engine, and the part of it that both engines share: names of the state, and fixed-shape prediction."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from unetkit.errors import UserError
from unetkit.objectives import Objective
from unetkit.train.step import is_seed

Arrays = dict[str, np.ndarray]

STEPS = frozenset({"train_step", "predict_step"})
"""Names of the functions that engines compile, as `unetkit.compilations` sees them: once each in a run."""


@dataclass(frozen=True)
class Options:
    """How the step is run. `global_batch` = per-replica batch x replicas x accumulate."""

    seed: int
    global_batch: int
    accumulate: int = 1
    steps_per_call: int = 1
    ema: float | None = None
    jit: bool = False
    deterministic: bool = True
    precision: str = "float32"


class Engine(ABC):
    """Trains the networks of one objective.

    Args:
        objective: networks and losses.
        optimizers: one built Keras optimizer per network, by role.
        options: how the step is run.
        devices: how many replicas share a global batch, and where.
    """

    def __init__(self, objective: Objective, optimizers: Mapping[str, keras.Optimizer], options: Options, devices: Any) -> None:
        self.objective, self.optimizers, self.options, self.devices = objective, dict(optimizers), options, devices
        self.average: dict[str, list[keras.Variable]] = {}

    @abstractmethod
    def run(self, batches: Sequence[Mapping[str, np.ndarray]], first_step: int) -> dict[str, np.ndarray]:
        """Runs one optimizer step per batch, without waiting for the device where that is possible.

        Args:
            batches: up to `steps_per_call` global batches of `input` and `target`, (b, h, w, c) float32.
            first_step: number of optimizer steps done so far in this run.

        Returns:
            name -> (steps,) what the objective logs, as means over the global batch; arrays of the engine's own kind.
        """

    @abstractmethod
    def predict(self, inputs: np.ndarray, average: bool = True) -> np.ndarray:
        """Output of the main network, (b, h, w, c) -> (b, h, w, c), with the averaged weights if there are any."""

    @abstractmethod
    def sync(self) -> None:
        """Makes the Keras variables hold the trained values, for callbacks and saving."""

    @abstractmethod
    def adopt(self) -> None:
        """Makes the engine go on from what the Keras variables hold now, for callbacks that change them."""

    def learning_rate(self, step: int) -> float:
        """The main network's learning rate at a step; a function of the step alone, so no device is asked."""
        optimizer = self.optimizers[self.objective.main]
        schedule = getattr(optimizer, "inner_optimizer", optimizer)._learning_rate
        return float(keras.ops.convert_to_numpy(schedule(step)))

    def variables(self) -> dict[str, dict[str, keras.Variable]]:
        """All that a checkpoint holds: `weights`, `ema`, `optimizer` -> plain name -> variable."""
        groups: dict[str, dict[str, keras.Variable]] = {"weights": {}, "ema": {}, "optimizer": {}}
        for role, network in self.objective.networks.items():
            prefix = "" if role == self.objective.main else f"{role}/"
            kept = [v for v in network.variables if not is_seed(v)]
            groups["weights"] |= {prefix + v.path: v for v in kept}
            groups["optimizer"] |= {prefix + v.path: v for v in self.optimizers[role].variables}
            groups["ema"] |= {
                prefix + v.path: a for v, a in zip(network.trainable_variables, self.average.get(role, []), strict=role in self.average)
            }
        return groups

    def state(self) -> dict[str, Arrays]:
        """The whole state as NumPy arrays, by group and plain name."""
        self.sync()
        return {
            group: {name: keras.ops.convert_to_numpy(v.value) for name, v in named.items()} for group, named in self.variables().items()
        }

    def load(self, state: Mapping[str, Arrays]) -> None:
        """Takes over a state. Groups that are absent are left as they are; inside a group every name must match.

        Raises:
            UserError: names or shapes differ.
        """
        for group, named in self.variables().items():
            if group in state:
                assign_all(named, state[group], group)


def averages(network: keras.Model) -> list[keras.Variable]:
    """The averaged copy of a network's weights, as it starts out.

    By way of NumPy: a Keras variable made from another one's TensorFlow value shares its memory and would never lag behind.
    """
    return [
        keras.Variable(keras.ops.convert_to_numpy(v.value), trainable=False, name=f"average_{i}")
        for i, v in enumerate(network.trainable_variables)
    ]


def assign_all(named: Mapping[str, keras.Variable], arrays: Arrays, what: str) -> None:
    """Assigns arrays to variables of the same names, after checking all names and shapes."""
    missing, extra = [n for n in named if n not in arrays], [n for n in arrays if n not in named]
    wrong = [n for n in named if n in arrays and tuple(arrays[n].shape) != tuple(named[n].shape)]
    if missing or extra or wrong:
        lines = [f"  {n}: shape {tuple(arrays[n].shape)} saved, {tuple(named[n].shape)} in this network" for n in wrong[:5]]
        lines += [f"  {n}: not saved" for n in missing[:5]] + [f"  {n}: saved, but not in this network" for n in extra[:5]]
        raise UserError(f"The saved {what} do not fit this network:\n" + "\n".join(lines))
    for name, variable in named.items():
        variable.assign(arrays[name])
