"""The section `optimizer` of the recipe: every kind, its keys, their defaults and bounds. See `schema.py` for the conventions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from unetkit.recipe.declare import key


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """What every optimizer takes. `name` is declared here, and narrowed below, so that it comes first."""

    name: str = ""
    learning_rate: float = key(1e-3, "peak learning rate", above=0.0)
    schedule: Literal["constant", "cosine", "linear"] = key("constant", "course of the learning rate after the warm-up")
    final_share: float = key(0.0, "the rate at the end, as a share of the peak (cosine, linear)", least=0.0, most=1.0)
    warmup_images: int = key(0, "images over which the rate rises linearly from 0", least=0)
    weight_decay: float = key(0.0, "decoupled weight decay (never of norms and biases)", least=0.0)
    no_decay: tuple[str, ...] = key((), "further weights without decay: patterns of weight paths, as `head/*`")
    clip_norm: float | None = key(None, "largest global norm of the gradient (null: no clipping)", above=0.0)


@dataclass(frozen=True, kw_only=True)
class Moments(Optimizer):
    """What Adam and its kin take beside."""

    beta_1: float = key(0.9, "decay of the first moment", least=0.0, below=1.0)
    beta_2: float = key(0.999, "decay of the second moment", least=0.0, below=1.0)
    epsilon: float = key(1e-7, "added to the denominator", above=0.0)


@dataclass(frozen=True, kw_only=True)
class Adam(Moments):
    """Adam; weight decay is decoupled and off."""

    name: Literal["adam"] = "adam"


@dataclass(frozen=True, kw_only=True)
class AdamW(Moments):
    """Adam with decoupled weight decay."""

    name: Literal["adamw"] = "adamw"
    weight_decay: float = key(1e-2, "decoupled weight decay (never of norms and biases)", least=0.0)


@dataclass(frozen=True, kw_only=True)
class Sgd(Optimizer):
    """Gradient descent, with or without momentum."""

    name: Literal["sgd"] = "sgd"
    momentum: float = key(0.0, "momentum", least=0.0, below=1.0)
    nesterov: bool = key(False, "Nesterov's form of momentum")


@dataclass(frozen=True, kw_only=True)
class RMSprop(Optimizer):
    """RMSprop."""

    name: Literal["rmsprop"] = "rmsprop"
    rho: float = key(0.9, "decay of the squared gradient", least=0.0, below=1.0)
    momentum: float = key(0.0, "momentum", least=0.0, below=1.0)
    epsilon: float = key(1e-7, "added to the denominator", above=0.0)


@dataclass(frozen=True, kw_only=True)
class Lion(Optimizer):
    """Lion: the sign of an interpolated momentum."""

    name: Literal["lion"] = "lion"
    beta_1: float = key(0.9, "interpolation of the update", least=0.0, below=1.0)
    beta_2: float = key(0.99, "decay of the momentum", least=0.0, below=1.0)


@dataclass(frozen=True, kw_only=True)
class Lamb(Moments):
    """LAMB: Adam scaled by each layer's trust ratio."""

    name: Literal["lamb"] = "lamb"


@dataclass(frozen=True, kw_only=True)
class RectifiedAdam(Moments):
    """Rectified Adam: the first steps follow the first moment alone."""

    name: Literal["rectified_adam"] = "rectified_adam"
    amsgrad: bool = key(False, "use the largest second moment so far")
    sma_threshold: float = key(5.0, "length of the moving average from which on the second moment is used", above=4.0)


@dataclass(frozen=True, kw_only=True)
class NovoGrad(Optimizer):
    """NovoGrad: momentum over gradients divided by each layer's norm; weight decay goes into the momentum."""

    name: Literal["novograd"] = "novograd"
    beta_1: float = key(0.95, "momentum", least=0.0, below=1.0)
    beta_2: float = key(0.98, "decay of the squared norm", least=0.0, below=1.0)
    epsilon: float = key(1e-7, "added to the denominator", above=0.0)
    grad_averaging: bool = key(False, "scale the divided gradient by 1 - beta_1")
    amsgrad: bool = key(False, "use the largest norm so far")


@dataclass(frozen=True, kw_only=True)
class Lookahead(Optimizer):
    """Lookahead: slow weights that follow another optimizer's, and to which it returns."""

    name: Literal["lookahead"] = "lookahead"
    inner: Literal["adam", "adamw", "sgd", "rmsprop", "lion", "lamb", "rectified_adam", "novograd"] = key(
        "adam", "the optimizer inside, with its defaults"
    )
    sync_period: int = key(6, "steps between two meetings of fast and slow weights", least=1)
    slow_step_size: float = key(0.5, "share of the way to the fast weights at which they meet", above=0.0, most=1.0)
