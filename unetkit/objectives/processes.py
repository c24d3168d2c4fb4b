"""How an image becomes noise: x_t = alpha(t) x_0 + sigma(t) noise, and what a network is asked about it.

Each process is the arithmetic of one family; `Generative` holds what they share. Per-image numbers are (b,), images are
(b, h, w, c), all float32; tables and grids are made in float64 and rounded once.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from unetkit.objectives.noise import uniform

Tensor = Any
SMALLEST = 1e-4  # of a time that is drawn: at 0 exactly there is nothing to learn


class Grid(NamedTuple):
    """The times at which a sampler looks, from noise to image, float64: `steps` times, and `steps + 1` values of alpha and sigma."""

    times: np.ndarray
    alpha: np.ndarray
    sigma: np.ndarray


def per_pixel(values: Tensor, x: Tensor) -> Tensor:
    """(b,) -> (b, 1, ..., 1), to be used with x."""
    return ops.reshape(values, (-1, *([1] * (len(x.shape) - 1))))


class Process(ABC):
    """One family of noising processes, and what the network's output F means in it."""

    straight = True
    """Whether dx/ds = (x - x_0) / s holds with s = sigma; where not, it does for x / alpha with s = sigma / alpha."""

    @abstractmethod
    def time(self, normal: Tensor) -> Tensor:
        """The training distribution of t, from standard-normal numbers, (b,) -> (b,)."""

    @abstractmethod
    def scales(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """alpha and sigma."""

    @abstractmethod
    def embed(self, t: Tensor) -> Tensor:
        """What the network is told of t: a number of the order of 1."""

    @abstractmethod
    def target(self, clean: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        """What F should be."""

    @abstractmethod
    def clean(self, x: Tensor, output: Tensor, t: Tensor) -> Tensor:
        """The estimate of x_0 that F stands for."""

    @abstractmethod
    def error_scale(self, t: Tensor) -> Tensor:
        """k of (estimate - x_0) = k (F - target), without its sign."""

    @abstractmethod
    def grid(self, steps: int) -> Grid:
        """The sampler's times."""

    def input_scale(self, t: Tensor) -> Tensor:
        """By what x is multiplied before the network sees it."""
        return ops.ones_like(t)


class Rectified(Process):
    """Rectified flow (Liu et al. 2022): x_t = (1 - t) x_0 + t noise, F = noise - x_0.

    Args:
        time: uniform, or logit_normal: t = 1 / (1 + exp(-z)) (Esser et al. 2024), more often in the middle.
    """

    def __init__(self, time: str = "uniform") -> None:
        self.distribution = time

    def time(self, normal: Tensor) -> Tensor:
        t = uniform(normal) if self.distribution == "uniform" else ops.sigmoid(normal)
        return ops.clip(t, SMALLEST, 1.0)

    def scales(self, t: Tensor) -> tuple[Tensor, Tensor]:
        return 1.0 - t, t

    def embed(self, t: Tensor) -> Tensor:
        return t

    def target(self, clean: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        return noise - clean

    def clean(self, x: Tensor, output: Tensor, t: Tensor) -> Tensor:
        return x - per_pixel(t, x) * output

    def error_scale(self, t: Tensor) -> Tensor:
        return t

    def grid(self, steps: int) -> Grid:
        t = np.linspace(1.0, 0.0, steps + 1)
        return Grid(t[:-1], 1.0 - t, t)


class Edm(Process):
    """EDM (Karras et al. 2022, table 1): x = x_0 + sigma noise, D = c_skip x + c_out F(c_in x), t is sigma.

    Args:
        sigma_data: standard deviation of the images.
        sigma_mean, sigma_spread: of the normal distribution of ln sigma in training.
        sigma_min, sigma_max, rho: of the sampler's times (eq. 5).
    """

    def __init__(
        self,
        sigma_data: float = 0.5,
        sigma_mean: float = -1.2,
        sigma_spread: float = 1.2,
        sigma_min: float = 0.002,
        sigma_max: float = 80.0,
        rho: float = 7.0,
    ) -> None:
        self.sigma_data, self.mean, self.spread = sigma_data, sigma_mean, sigma_spread
        self.least, self.most, self.rho = sigma_min, sigma_max, rho

    def time(self, normal: Tensor) -> Tensor:
        return ops.exp(self.mean + self.spread * normal)

    def scales(self, t: Tensor) -> tuple[Tensor, Tensor]:
        return ops.ones_like(t), t

    def embed(self, t: Tensor) -> Tensor:
        return ops.log(t) / 4.0  # c_noise

    def input_scale(self, t: Tensor) -> Tensor:
        return ops.rsqrt(t**2 + self.sigma_data**2)

    def _skip(self, t: Tensor) -> Tensor:
        return self.sigma_data**2 / (t**2 + self.sigma_data**2)

    def error_scale(self, t: Tensor) -> Tensor:
        return t * self.sigma_data * ops.rsqrt(t**2 + self.sigma_data**2)  # c_out

    def target(self, clean: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        x = clean + per_pixel(t, clean) * noise
        return (clean - per_pixel(self._skip(t), clean) * x) / per_pixel(self.error_scale(t), clean)

    def clean(self, x: Tensor, output: Tensor, t: Tensor) -> Tensor:
        return per_pixel(self._skip(t), x) * x + per_pixel(self.error_scale(t), x) * output

    def grid(self, steps: int) -> Grid:
        share = np.arange(steps) / max(steps - 1, 1)
        most, least = self.most ** (1 / self.rho), self.least ** (1 / self.rho)
        sigma = (most + share * (least - most)) ** self.rho
        return Grid(sigma, np.ones(steps + 1), np.append(sigma, 0.0))


LEVELS = 1000
"""Noise levels of the discrete schedules (Ho et al. 2020, section 4)."""


def signal_share(schedule: str) -> np.ndarray:
    """alpha^2 at each of `LEVELS` levels, the least noisy first: (LEVELS,) float64, falling.

    linear: beta from 1e-4 to 0.02 (Ho et al. 2020, section 4). cosine: Nichol and Dhariwal 2021, eq. 17, s = 0.008, beta at
    most 0.999. sigmoid: Jabri et al. 2022, from -3 to 3 with temperature 1, alpha^2 at least 1e-9.
    """
    if schedule == "linear":
        return np.cumprod(1.0 - np.linspace(1e-4, 0.02, LEVELS))
    t = np.arange(LEVELS + 1) / LEVELS
    if schedule == "cosine":
        f = np.cos((t + 0.008) / 1.008 * math.pi / 2.0) ** 2
        return np.cumprod(1.0 - np.minimum(1.0 - f[1:] / f[:-1], 0.999))
    if schedule != "sigmoid":
        raise ValueError(f"objective.schedule: received {schedule!r}, known are cosine, linear and sigmoid.")
    start, end = (1.0 / (1.0 + math.exp(-v)) for v in (-3.0, 3.0))
    return np.clip((end - 1.0 / (1.0 + np.exp(-(t[1:] * 6.0 - 3.0)))) / (end - start), 1e-9, 1.0 - 1e-6)


class Discrete(Process):
    """Variance-preserving diffusion over a table of levels (Ho et al. 2020, eq. 4): alpha^2 + sigma^2 = 1, t is a level's number.

    Args:
        prediction: what F is: `eps` the noise, `x0` the image, `v` = alpha noise - sigma x_0 (Salimans and Ho 2022, appendix D).
        schedule: cosine, linear or sigmoid, see `signal_share`.
    """

    straight = False

    def __init__(self, prediction: str = "v", schedule: str = "cosine") -> None:
        if prediction not in ("eps", "x0", "v"):
            raise ValueError(f"objective.prediction: received {prediction!r}, known are eps, x0 and v.")
        self.prediction = prediction
        share = signal_share(schedule)
        self.alphas, self.sigmas = np.sqrt(share), np.sqrt(1.0 - share)

    def time(self, normal: Tensor) -> Tensor:
        return ops.floor(ops.clip(uniform(normal) * LEVELS, 0.0, LEVELS - 1.0))

    def scales(self, t: Tensor) -> tuple[Tensor, Tensor]:
        number = ops.cast(t, "int32")
        return tuple(ops.take(ops.convert_to_tensor(table.astype(np.float32)), number) for table in (self.alphas, self.sigmas))

    def embed(self, t: Tensor) -> Tensor:
        return t / LEVELS

    def target(self, clean: Tensor, noise: Tensor, t: Tensor) -> Tensor:
        if self.prediction == "eps":
            return noise
        if self.prediction == "x0":
            return clean
        alpha, sigma = (per_pixel(scale, clean) for scale in self.scales(t))
        return alpha * noise - sigma * clean

    def clean(self, x: Tensor, output: Tensor, t: Tensor) -> Tensor:
        alpha, sigma = (per_pixel(scale, x) for scale in self.scales(t))
        if self.prediction == "eps":
            return (x - sigma * output) / alpha
        return output if self.prediction == "x0" else alpha * x - sigma * output

    def error_scale(self, t: Tensor) -> Tensor:
        alpha, sigma = self.scales(t)
        return {"eps": sigma / alpha, "x0": ops.ones_like(t), "v": sigma}[self.prediction]

    def grid(self, steps: int) -> Grid:
        levels = np.round(np.linspace(LEVELS - 1, 0, steps)).astype(int)
        return Grid(levels.astype(float), np.append(self.alphas[levels], 1.0), np.append(self.sigmas[levels], 0.0))
