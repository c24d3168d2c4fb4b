"""What the loop asks of an engine, and the part of it that both engines share: names of the state, and fixed-shape prediction."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from unetkit.errors import UserError
from unetkit.objectives import Objective
from unetkit.objectives.noise import keyed_normal
from unetkit.train.step import is_seed

Arrays = dict[str, np.ndarray]
Batch = Mapping[str, np.ndarray]
NOISE = "noise/"

STEPS = frozenset({"train_step", "predict_step", "measure_step"})
"""Names of the functions that engines compile, as `unetkit.compilations` sees them: once each in a run."""


@dataclass(frozen=True)
class Options:
    """How the step is run. `global_batch` = per-replica batch x replicas x accumulate.

    `sync_batch_norm`: statistics over a micro-batch of all replicas, not of each replica by itself.
    """

    seed: int
    global_batch: int
    accumulate: int = 1
    steps_per_call: int = 1
    ema: float | None = None
    ema_warmup: float | None = None
    sync_batch_norm: bool = True
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
        self.replicas = 1
        self.measured: tuple[str, ...] = ()

    @abstractmethod
    def run(self, batches: Sequence[Mapping[str, np.ndarray]], first_step: int) -> dict[str, np.ndarray]:
        """Runs one optimizer step per batch, without waiting for the device where that is possible.

        Args:
            batches: up to `steps_per_call` global batches of `input` and `target`, (b, h, w, c) float32.
            first_step: number of optimizer steps done so far in this run.

        Returns:
            name -> (steps,) what the objective logs, as means over the global batch; arrays of the engine's own kind.
        """

    def predict(self, inputs: np.ndarray | Batch, average: bool = True, numbers: Sequence[int] | None = None) -> np.ndarray:
        """The objective's pictures, (b, h, w, c), with the averaged weights if there are any.

        Args:
            inputs: (b, h, w, c), or a batch with an `input` and what else the objective wants.
            average: False: the raw weights.
            numbers: one for each picture, which decides its noise (None: the same for all, so that no batch matters).
        """
        batch = inputs if isinstance(inputs, Mapping) else {"input": inputs}
        rows = len(next(iter(batch.values())))
        asked = self.objective.request(batch, self.options.seed, np.zeros(rows, int) if numbers is None else np.asarray(numbers))
        return self._per_replica(self.compute_prediction, asked, average)[0]

    def measure(self, batch: Batch, numbers: Sequence[int]) -> dict[str, np.ndarray]:
        """What the objective logs of each sample, name -> (b,), with the averaged weights if there are any and noise by number."""
        batch = self.objective.prepare(batch)
        shapes = {name: tuple(value.shape[1:]) for name, value in batch.items()}
        noise = keyed_normal(self.objective.draws(shapes), self.options.seed, numbers)
        given = {**batch, **{NOISE + name: value for name, value in noise.items()}}
        values = self._per_replica(self.compute_measures, given, True)
        return dict(zip(self.measured, values, strict=True))

    def _per_replica(self, compute: Callable, batch: Batch, average: bool) -> list[np.ndarray]:
        """`compute` on a batch that is filled up to whole replicas, and its answers for the rows that were given."""
        rows = len(next(iter(batch.values())))
        short = -rows % self.replicas
        filled = {name: np.concatenate([v, np.repeat(v[-1:], short, axis=0)]) if short else v for name, v in batch.items()}
        return [part[:rows] for part in compute(filled, average and bool(self.average))]

    @abstractmethod
    def compute_prediction(self, batch: Batch, average: bool) -> list[np.ndarray]:
        """[`Objective.predict`] on the devices, compiled."""

    @abstractmethod
    def compute_measures(self, batch: Batch, average: bool) -> list[np.ndarray]:
        """The parts of `Objective.losses` without training, in the order of `measured`; noise has names with `NOISE` in front."""

    def _measures(self, call: Callable, batch: Mapping[str, Any]) -> list[Any]:
        noise = {name.removeprefix(NOISE): value for name, value in batch.items() if name.startswith(NOISE)}
        parts = self.objective.losses(call, {name: value for name, value in batch.items() if not name.startswith(NOISE)}, noise)[1]
        self.measured = tuple(parts)
        return list(parts.values())

    @abstractmethod
    def sync(self) -> None:
        """Makes the Keras variables hold the trained values, for callbacks and saving."""

    @abstractmethod
    def adopt(self) -> None:
        """Makes the engine go on from what the Keras variables hold now, for callbacks that change them."""

    @abstractmethod
    def follow_first(self) -> None:
        """Makes every host go on from what the first one's Keras variables hold."""

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


def decay_at(options: Options, number: Any) -> Any:
    """The average's decay at the step after `number` steps: min(ema, 1 - (1 + n)^-power), float32.

    The power warm-up of k-diffusion and of Karras et al. 2024: a fixed decay remembers the initial weights for long, this one
    averages over a share of what has been seen. Its first decay is 0, so the average begins as the first trained weights.
    """
    if options.ema_warmup is None:
        return options.ema
    return keras.ops.minimum(options.ema, 1.0 - (1.0 + keras.ops.cast(number, "float32")) ** -options.ema_warmup)


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
