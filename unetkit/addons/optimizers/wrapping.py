"""Optimizers around another one: Lookahead, MovingAverage and SWA."""

import warnings
from collections.abc import Sequence

import keras
from keras import ops

from unetkit.errors import UserError


class WrappingOptimizer(keras.optimizers.Optimizer):
    """Abstract: takes the step of the optimizer inside, then does something more. The subclass fills `after`.

    The two share the count of steps and the learning rate. What the one inside does besides its step (clipping, Keras' weight
    decay) it does as if it were alone.

    Args:
        optimizer: a Keras optimizer, or its name.
        **kwargs: those of `keras.optimizers.Optimizer`, as `global_clipnorm`.
    """

    slot = "slot"

    def __init__(self, optimizer: keras.optimizers.Optimizer | str, name: str, **kwargs):
        inner = keras.optimizers.get(optimizer)
        super().__init__(learning_rate=inner._get_current_learning_rate, name=name, **kwargs)
        self.inner = inner
        self._learning_rate = inner._learning_rate
        inner._untrack_variable(inner._iterations)
        inner._iterations = self._iterations

    def after(self, value, slot, step):
        """(weights after the step, the slot, steps done before) -> (weights, slot) from now on. At first the slot holds `start`."""
        raise NotImplementedError(f"{type(self).__name__} must define after(self, value, slot, step)")

    def start(self, value):
        """What the slot of a weight holds before the first step."""
        return value

    def build(self, variables):
        if self.built:
            return
        self.inner.build(variables)
        super().build(variables)
        self.kept = self.add_optimizer_variables(variables, self.slot)

    @keras.optimizers.Optimizer.learning_rate.setter
    def learning_rate(self, value):
        self.inner.learning_rate = value
        self._learning_rate = self.inner._learning_rate

    @property
    def variables(self):
        return self._variables + self.inner.variables

    def update_step(self, gradient, variable, learning_rate):
        slot = self.kept[self._get_variable_index(variable)]
        before = ops.where(ops.equal(self.iterations, 0), self.start(ops.convert_to_tensor(variable)), ops.convert_to_tensor(slot))
        self.inner.update_step(gradient, variable, learning_rate)
        value, kept = self.after(ops.convert_to_tensor(variable), before, self.iterations)
        self.assign(slot, kept)
        self.assign(variable, value)

    def _clip_gradients(self, grads):
        return self.inner._clip_gradients(super()._clip_gradients(grads))

    def _apply_weight_decay(self, variables):
        super()._apply_weight_decay(variables)
        self.inner._apply_weight_decay(variables)

    def exclude_from_weight_decay(self, var_list=None, var_names=None):
        super().exclude_from_weight_decay(var_list, var_names)
        self.inner.exclude_from_weight_decay(var_list, var_names)

    def get_config(self):
        config = super().get_config()
        config.pop("learning_rate")
        return config | {"optimizer": keras.optimizers.serialize(self.inner)}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        return cls(keras.optimizers.deserialize(config.pop("optimizer"), custom_objects), **config)


@keras.saving.register_keras_serializable("unetkit.addons")
class Lookahead(WrappingOptimizer):
    """Every `sync_period` steps the weights go back towards slow weights, which follow them (Zhang et al. 2019, algorithm 1).

    Args:
        optimizer: a Keras optimizer, or its name.
        sync_period: steps between two meetings (k of the paper).
        slow_step_size: share of the way to the fast weights at which they meet (alpha of the paper).
        **kwargs: those of `keras.optimizers.Optimizer`, as `global_clipnorm`.
    """

    slot = "slow"

    def __init__(self, optimizer, sync_period: int = 6, slow_step_size: float = 0.5, name: str = "Lookahead", **kwargs):
        if sync_period < 1:
            raise UserError(f"Lookahead: sync_period={sync_period!r} must be a whole number, 1 or more.")
        super().__init__(optimizer, name, **kwargs)
        self.sync_period, self.slow_step_size = sync_period, slow_step_size

    def after(self, value, slot, step):
        meeting = ops.equal((step + 1) % self.sync_period, 0)
        between = slot + self.slow_step_size * (value - slot)
        return ops.where(meeting, between, value), ops.where(meeting, between, slot)

    def get_config(self):
        return super().get_config() | {"sync_period": self.sync_period, "slow_step_size": self.slow_step_size}


class AveragingOptimizer(WrappingOptimizer):
    """Abstract: keeps an average of the weights, which are trained as without it. The subclass fills `average`."""

    slot = "average"

    def average(self, value, average, step):
        """(weights after the step, their average so far, steps done before) -> the average from now on."""
        raise NotImplementedError(f"{type(self).__name__} must define average(self, value, average, step)")

    def after(self, value, slot, step):
        return value, self.average(value, slot, step)

    def assign_average_vars(self, var_list: Sequence[keras.Variable]) -> None:
        """Sets the weights to their averages. Variables that this optimizer does not train keep their values, with a warning."""
        for variable, average in self._pairs(var_list):
            variable.assign(average.value)

    def swap_weights(self, var_list: Sequence[keras.Variable] | None = None) -> None:
        """Exchanges weights and averages, exactly; a second call puts them back. None: all the weights trained."""
        for variable, average in self._pairs(self._trainable_variables if var_list is None else var_list):
            value = ops.convert_to_numpy(variable)
            variable.assign(average.value)
            average.assign(value)

    def _pairs(self, variables):
        for variable in variables:
            if self._var_key(variable) in self._trainable_variables_indices:
                yield variable, self.kept[self._get_variable_index(variable)]
            else:
                warnings.warn(f"{self.name} has no average of {variable.path}, which it does not train.", stacklevel=3)


@keras.saving.register_keras_serializable("unetkit.addons")
class MovingAverage(AveragingOptimizer):
    """Keeps an exponential average of the weights (Polyak and Juditsky 1992). unetkit's recipes have `training.ema` for that.

    Args:
        optimizer: a Keras optimizer, or its name.
        average_decay: average = average_decay * average + (1 - average_decay) * weights.
        num_updates: bounds the decay by (1 + num_updates) / (10 + num_updates).
        start_step: until this step the average is the weights.
        dynamic_decay: bounds the decay by (1 + n) / (10 + n), n steps after `start_step`.
        **kwargs: those of `keras.optimizers.Optimizer`, as `global_clipnorm`.
    """

    def __init__(
        self,
        optimizer,
        average_decay: float = 0.99,
        num_updates: int | None = None,
        start_step: int = 0,
        dynamic_decay: bool = False,
        name: str = "MovingAverage",
        **kwargs,
    ):
        super().__init__(optimizer, name, **kwargs)
        self.average_decay, self.num_updates = average_decay, num_updates
        self.start_step, self.dynamic_decay = start_step, dynamic_decay

    def average(self, value, average, step):
        decay = self.average_decay
        if self.num_updates is not None:
            decay = min(decay, (1.0 + self.num_updates) / (10.0 + self.num_updates))
        step = ops.cast(step, value.dtype)
        if self.dynamic_decay:
            counted = step - self.start_step
            decay = ops.minimum(decay, (1.0 + counted) / (10.0 + counted))
        decay = ops.where(step < self.start_step, 0.0, decay)
        return average - (average - value) * ops.cast(1.0 - decay, value.dtype)

    def get_config(self):
        return super().get_config() | {
            "average_decay": self.average_decay,
            "num_updates": self.num_updates,
            "start_step": self.start_step,
            "dynamic_decay": self.dynamic_decay,
        }


@keras.saving.register_keras_serializable("unetkit.addons")
class SWA(AveragingOptimizer):
    """Keeps the mean of the weights at every `average_period`-th step (Izmailov et al. 2018, algorithm 1).

    Args:
        optimizer: a Keras optimizer, or its name.
        start_averaging: steps before the first snapshot.
        average_period: steps between two snapshots.
        **kwargs: those of `keras.optimizers.Optimizer`, as `global_clipnorm`.
    """

    def __init__(self, optimizer, start_averaging: int = 0, average_period: int = 10, name: str = "SWA", **kwargs):
        if start_averaging < 0 or average_period < 1:
            raise UserError(f"SWA: start_averaging={start_averaging!r} must be 0 or more, and average_period={average_period!r} 1 or more.")
        super().__init__(optimizer, name, **kwargs)
        self.start_averaging, self.average_period = start_averaging, average_period

    def start(self, value):
        return ops.zeros_like(value)

    def average(self, value, average, step):
        taken = ops.maximum((step - self.start_averaging) // self.average_period, 0)  # snapshots so far
        now = ops.equal(step, self.start_averaging + taken * self.average_period)
        count = ops.cast(taken, value.dtype)
        return ops.where(now, (average * count + value) / (count + 1.0), average)

    def get_config(self):
        return super().get_config() | {"start_averaging": self.start_averaging, "average_period": self.average_period}
