"""LAMB, RectifiedAdam, NovoGrad, and an AdamW whose decay does not follow the learning rate.

Further keyword arguments are those of `keras.optimizers.Optimizer`, as `global_clipnorm`. Patterns are regular expressions
that are searched in the paths of the weights, as `bias` or `gamma|beta`.
"""

import re
from collections.abc import Sequence

import keras
from keras import ops

from unetkit.errors import UserError


class DecayedOptimizer(keras.optimizers.Optimizer):
    """Abstract: an optimizer with a weight decay of its own, in place of Keras'.

    Args:
        learning_rate: number, schedule or function of the step.
        weight_decay: number, or schedule of the step; None is 0.
        exclude_from_weight_decay: patterns of weights that are not decayed (None: all are).
    """

    def __init__(self, learning_rate, *, weight_decay, exclude_from_weight_decay: Sequence[str] | None = None, **kwargs):
        rate = learning_rate if callable(learning_rate) else float(learning_rate)
        super().__init__(learning_rate=rate, weight_decay=None, **kwargs)
        weight_decay = 0.0 if weight_decay is None else weight_decay
        if not callable(weight_decay) and not weight_decay >= 0:
            raise UserError(f"{type(self).__name__}: weight_decay={weight_decay!r} must be 0 or more.")
        self.own_decay = weight_decay
        self.undecayed = list(exclude_from_weight_decay or [])

    def slots(self, variables, *names: str) -> None:
        """Makes one list of slots per name, as self.NAME."""
        for name in names:
            setattr(self, name, self.add_optimizer_variables(variables, name))

    @property
    def has_decay(self) -> bool:
        return callable(self.own_decay) or self.own_decay > 0

    def decay(self, variable):
        """The weight decay of a weight at this step."""
        if not self.has_decay or not self._use_weight_decay(variable) or self.index(variable) in self.undecayed_indices:
            return ops.zeros((), variable.dtype)
        decay = self.own_decay(self.iterations) if callable(self.own_decay) else self.own_decay
        return ops.cast(decay, variable.dtype)

    def build(self, variables):
        if not self.built:  # Keras builds again what it has loaded
            super().build(variables)
            self.undecayed_indices = matching(variables, self.undecayed)
            self.make_slots(variables)

    def make_slots(self, variables) -> None:
        """Makes the variables that the optimizer remembers."""
        raise NotImplementedError(f"{type(self).__name__} must define make_slots(self, variables)")

    def index(self, variable) -> int:
        return self._get_variable_index(variable)

    def moments(self, number: int, gradient, beta_1, beta_2):
        """Moves the slots `m` and `v` of a weight to its gradient and to the square of that, and returns both."""
        m = beta_1 * self.m[number] + (1 - beta_1) * gradient
        v = beta_2 * self.v[number] + (1 - beta_2) * ops.square(gradient)
        self.assign(self.m[number], m)
        self.assign(self.v[number], v)
        return m, v

    def largest(self, number: int, v):
        """The largest v of a weight so far, in the slot `vhat` (Reddi et al. 2018), where `amsgrad` asks for it; else v."""
        if not self.amsgrad:
            return v
        v = ops.maximum(self.vhat[number], v)
        self.assign(self.vhat[number], v)
        return v

    def get_config(self):
        decay = keras.saving.serialize_keras_object(self.own_decay) if callable(self.own_decay) else self.own_decay
        return super().get_config() | {"weight_decay": decay, "exclude_from_weight_decay": self.undecayed}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        if isinstance(config["weight_decay"], dict):
            config = config | {"weight_decay": keras.saving.deserialize_keras_object(config["weight_decay"], custom_objects)}
        return super().from_config(config, custom_objects)


def matching(variables, patterns: Sequence[str]) -> set[int]:
    """Numbers of the variables in whose path one of the patterns is found."""
    return {i for i, v in enumerate(variables) if any(re.search(pattern, getattr(v, "path", v.name)) for pattern in patterns)}


@keras.saving.register_keras_serializable("unetkit.addons")
class AdamW(DecayedOptimizer):
    """Adam, before whose step each weight shrinks by `weight_decay` itself (Loshchilov and Hutter 2019, algorithm 2).

    In `keras.optimizers.AdamW` it shrinks by `weight_decay * learning_rate`: to change over, divide by the learning rate.

    Args:
        weight_decay: number, or schedule of the step.
        learning_rate: number, schedule or function of the step.
        beta_1, beta_2: decay of the first and of the second moment.
        epsilon: added to the root of the second moment ("epsilon hat" of Kingma and Ba 2015, section 2).
        amsgrad: use the largest second moment so far (Reddi et al. 2018).
        exclude_from_weight_decay: patterns of weights that are not decayed (None: all are).
    """

    def __init__(
        self,
        weight_decay,
        learning_rate=0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "AdamW",
        exclude_from_weight_decay: Sequence[str] | None = None,
        **kwargs,
    ):
        super().__init__(learning_rate, weight_decay=weight_decay, exclude_from_weight_decay=exclude_from_weight_decay, name=name, **kwargs)
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = beta_1, beta_2, epsilon, amsgrad

    def make_slots(self, variables):
        self.slots(variables, "m", "v", *(["vhat"] if self.amsgrad else []))

    def update_step(self, gradient, variable, learning_rate):
        number, dtype = self.index(variable), variable.dtype
        step, gradient = ops.cast(self.iterations + 1, dtype), ops.cast(gradient, dtype)
        rate = ops.cast(learning_rate, dtype) * ops.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
        m, v = self.moments(number, gradient, self.beta_1, self.beta_2)
        v = self.largest(number, v)
        kept = 1 - self.decay(variable)
        self.assign(variable, kept * variable - rate * m / (ops.sqrt(v) + self.epsilon))

    def get_config(self):
        return super().get_config() | {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon, "amsgrad": self.amsgrad}


@keras.saving.register_keras_serializable("unetkit.addons")
class LAMB(DecayedOptimizer):
    """Adam's direction plus the decay, scaled by |weights| / |direction| of each weight (You et al. 2020, algorithm 2).

    Args:
        learning_rate: number, schedule or function of the step.
        beta_1, beta_2: decay of the first and of the second moment.
        epsilon: added to the root of the second moment.
        weight_decay: added to the direction as `weight_decay * weights`. `keras.optimizers.Lamb` decays beside it.
        exclude_from_weight_decay: patterns of weights that are not decayed (None: all are).
        exclude_from_layer_adaptation: patterns of weights that are not scaled (None: those that are not decayed).
    """

    def __init__(
        self,
        learning_rate=0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        weight_decay=0.0,
        exclude_from_weight_decay: Sequence[str] | None = None,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        name: str = "LAMB",
        **kwargs,
    ):
        super().__init__(learning_rate, weight_decay=weight_decay, exclude_from_weight_decay=exclude_from_weight_decay, name=name, **kwargs)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.unscaled = list(exclude_from_layer_adaptation or exclude_from_weight_decay or [])

    def make_slots(self, variables):
        self.unscaled_indices = matching(variables, self.unscaled)
        self.slots(variables, "m", "v")

    def update_step(self, gradient, variable, learning_rate):
        number, dtype = self.index(variable), variable.dtype
        step, gradient = ops.cast(self.iterations + 1, dtype), ops.cast(gradient, dtype)
        m, v = self.moments(number, gradient, self.beta_1, self.beta_2)
        update = (m / (1 - self.beta_1**step)) / (ops.sqrt(v / (1 - self.beta_2**step)) + self.epsilon)
        update = update + self.decay(variable) * variable
        ratio = ops.ones((), dtype)
        if number not in self.unscaled_indices:
            weight_norm, update_norm = (ops.sqrt(ops.sum(ops.square(x))) for x in (variable, update))
            both = ops.logical_and(weight_norm > 0, update_norm > 0)
            ratio = ops.where(both, weight_norm / ops.where(both, update_norm, ratio), ratio)
        self.assign_sub(variable, ratio * ops.cast(learning_rate, dtype) * update)

    def get_config(self):
        own = {"beta_1": self.beta_1, "beta_2": self.beta_2, "epsilon": self.epsilon}
        return super().get_config() | own | {"exclude_from_layer_adaptation": self.unscaled}


@keras.saving.register_keras_serializable("unetkit.addons")
class RectifiedAdam(DecayedOptimizer):
    """Adam whose first steps, while the second moment is known from few gradients, follow the first moment alone (Liu et al. 2020).

    Args:
        learning_rate: number, schedule or function of the step.
        beta_1, beta_2: decay of the first and of the second moment.
        epsilon: added to the root of the second moment.
        weight_decay: number or schedule; `weight_decay * weights` is added to the direction.
        amsgrad: use the largest second moment so far (Reddi et al. 2018).
        sma_threshold: length of the approximated simple moving average from which on the second moment is used.
        total_steps: above 0: a linear warm-up, then a linear decay, over so many steps.
        warmup_proportion: share of them that is warm-up.
        min_lr: rate at their end.
    """

    def __init__(
        self,
        learning_rate=0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        weight_decay=0.0,
        amsgrad: bool = False,
        sma_threshold: float = 5.0,
        total_steps: int = 0,
        warmup_proportion: float = 0.1,
        min_lr: float = 0.0,
        name: str = "RectifiedAdam",
        exclude_from_weight_decay: Sequence[str] | None = None,
        **kwargs,
    ):
        super().__init__(learning_rate, weight_decay=weight_decay, exclude_from_weight_decay=exclude_from_weight_decay, name=name, **kwargs)
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = beta_1, beta_2, epsilon, amsgrad
        self.sma_threshold = sma_threshold
        self.total_steps, self.warmup_proportion, self.min_lr = total_steps, warmup_proportion, min_lr

    def make_slots(self, variables):
        self.slots(variables, "m", "v", *(["vhat"] if self.amsgrad else []))

    def scheduled(self, rate, step):
        """The learning rate after warm-up and decay."""
        if not self.total_steps:
            return rate
        warm = self.total_steps * self.warmup_proportion
        left = max(self.total_steps - warm, 1.0)
        falling = rate + (self.min_lr - rate) / left * ops.minimum(step - warm, left)
        return ops.where(step <= warm, rate * step / warm, falling) if warm else falling

    def update_step(self, gradient, variable, learning_rate):
        number, dtype = self.index(variable), variable.dtype
        step, gradient = ops.cast(self.iterations + 1, dtype), ops.cast(gradient, dtype)
        # In the weights' precision throughout, as the original: rho_t is a small difference of large numbers.
        beta_1, beta_2 = ops.cast(self.beta_1, dtype), ops.cast(self.beta_2, dtype)
        first_power, second_power = ops.power(beta_1, step), ops.power(beta_2, step)
        longest = 2.0 / (1.0 - beta_2) - 1.0  # rho_inf of the paper
        length = longest - 2.0 * step * second_power / (1.0 - second_power)  # rho_t
        m, v = self.moments(number, gradient, beta_1, beta_2)
        v = self.largest(number, v)
        known = length >= self.sma_threshold
        factor = (length - 4) / (longest - 4) * (length - 2) / (longest - 2) * longest / length
        rectified = ops.sqrt(ops.where(known, factor, ops.zeros_like(factor)))  # r_t; before the threshold it may be of a negative number
        m = m / (1.0 - first_power)
        update = ops.where(known, rectified * m / (ops.sqrt(v / (1.0 - second_power)) + self.epsilon), m)
        update = update + self.decay(variable) * variable
        self.assign_sub(variable, self.scheduled(ops.cast(learning_rate, dtype), step) * update)

    def get_config(self):
        return super().get_config() | {
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "amsgrad": self.amsgrad,
            "sma_threshold": self.sma_threshold,
            "total_steps": self.total_steps,
            "warmup_proportion": self.warmup_proportion,
            "min_lr": self.min_lr,
        }


@keras.saving.register_keras_serializable("unetkit.addons")
class NovoGrad(DecayedOptimizer):
    """Momentum over gradients that are divided by a moving norm, one number per weight tensor (Ginsburg et al. 2019, algorithm 1).

    Args:
        learning_rate: number, schedule or function of the step.
        beta_1: momentum.
        beta_2: decay of the squared norm.
        epsilon: added to the norm.
        weight_decay: `weight_decay * weights` is added to the divided gradient.
        grad_averaging: scale the divided gradient by 1 - beta_1, but in the first step.
        amsgrad: use the largest norm so far (Reddi et al. 2018).
    """

    def __init__(
        self,
        learning_rate=0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        weight_decay=0.0,
        grad_averaging: bool = False,
        amsgrad: bool = False,
        name: str = "NovoGrad",
        exclude_from_weight_decay: Sequence[str] | None = None,
        **kwargs,
    ):
        super().__init__(learning_rate, weight_decay=weight_decay, exclude_from_weight_decay=exclude_from_weight_decay, name=name, **kwargs)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.grad_averaging, self.amsgrad = grad_averaging, amsgrad

    def make_slots(self, variables):
        self.slots(variables, "m")
        for name in ("v", *(["vhat"] if self.amsgrad else [])):
            named = (f"{getattr(v, 'path', v.name).replace('/', '_').replace(':', '_')}_{name}" for v in variables)
            setattr(self, name, [self.add_variable((), dtype=v.dtype, name=n) for v, n in zip(variables, named, strict=True)])

    def update_step(self, gradient, variable, learning_rate):
        number, dtype = self.index(variable), variable.dtype
        gradient, first = ops.cast(gradient, dtype), ops.equal(self.iterations, 0)
        squared = ops.sum(ops.square(gradient))
        v = ops.where(first, squared, self.beta_2 * self.v[number] + (1 - self.beta_2) * squared)
        self.assign(self.v[number], v)
        v = self.largest(number, v)
        direction = gradient / (ops.sqrt(v) + self.epsilon) + self.decay(variable) * variable
        if self.grad_averaging:
            direction = ops.where(first, direction, (1 - self.beta_1) * direction)
        m = self.beta_1 * self.m[number] - ops.cast(learning_rate, dtype) * direction
        self.assign(self.m[number], m)
        self.assign_add(variable, m)

    def get_config(self):
        return super().get_config() | {
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "grad_averaging": self.grad_averaging,
            "amsgrad": self.amsgrad,
        }
