"""Samplers: from noise to an image in a fixed number of steps, as one table of coefficients and one loop.

With D the network's estimate of the image, each step of every sampler here is a sum of arrays it already has,

    y = a x + b D + c D_before,     and for Heun     x <- p x + q y + r D(y),

so a sampler is a table of numbers, made on the host in float64. All are exact for a network that knows the image.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from unetkit.objectives.processes import Grid

Tensor = Any
SAMPLERS = ("euler", "ddim", "heun", "dpmpp_2m")


class Table(NamedTuple):
    """A sampler's steps.

    Attributes:
        start: by what standard-normal noise is multiplied to begin with.
        rows: (steps, 8) float32: time, time of the second look, a, b, c, p, q, r.
        looks: how often the network is called in a step.
    """

    start: float
    rows: np.ndarray
    looks: int


def table(sampler: str, grid: Grid, straight: bool) -> Table:
    """The coefficients of a sampler on a grid of times.

    euler, ddim: the first-order step (Song et al. 2020, eq. 12 with sigma = 0), x' = alpha' D + sigma' (x - alpha D) / sigma. In
    EDM's and in a flow's coordinates that is Euler's step. heun: Karras et al. 2022, algorithm 1, without noise. dpmpp_2m: Lu et
    al. 2022 (DPM-Solver++), algorithm 2, first order at both ends, where its logarithms are infinite.

    Args:
        sampler: one of `SAMPLERS`.
        grid: of the process.
        straight: of the process; decides in which coordinates Heun's slopes are taken.

    Raises:
        ValueError: an unknown sampler.
    """
    if sampler not in SAMPLERS:
        raise ValueError(f"objective.sampler: received {sampler!r}, known are {', '.join(SAMPLERS)}.")
    alpha, alpha_next, sigma, sigma_next = grid.alpha[:-1], grid.alpha[1:], grid.sigma[:-1], grid.sigma[1:]
    steps = len(grid.times)
    a, b, c = sigma_next / sigma, alpha_next - alpha * sigma_next / sigma, np.zeros(steps)
    p, q, r = np.zeros(steps), np.ones(steps), np.zeros(steps)
    if sampler == "heun":
        scale = np.ones(steps + 1) if straight else grid.alpha
        s = grid.sigma / scale
        inner = slice(0, steps - 1)  # the last step ends at sigma = 0, where there is no slope to average with
        k = 0.5 * (s[1:][inner] - s[:-1][inner]) / s[1:][inner]
        p[inner], q[inner], r[inner] = 0.5 * scale[1:][inner] / scale[:-1][inner], 0.5 + k, -k * scale[1:][inner]
    if sampler == "dpmpp_2m":
        with np.errstate(divide="ignore"):
            log_snr = np.log(grid.alpha) - np.log(grid.sigma)  # lambda
        h = np.diff(log_snr)
        for n in range(1, steps - 1):
            extra = 0.0 if np.isinf(h[n - 1]) else h[n] / (2.0 * h[n - 1])  # 1 / (2 r)
            b[n], c[n] = b[n] * (1.0 + extra), -b[n] * extra
    second = np.append(grid.times[1:], grid.times[-1:])
    rows = np.stack([grid.times, second, a, b, c, p, q, r], axis=1).astype(np.float32)
    return Table(float(grid.sigma[0]), rows, 2 if sampler == "heun" else 1)


def integrate(denoise: Callable[[Tensor, Tensor], Tensor], noise: Tensor, steps: Table) -> Tensor:
    """Runs a sampler.

    Args:
        denoise: (x, t) -> estimate of the image; x (b, h, w, c), t (b,).
        noise: (b, h, w, c) standard normal.
        steps: of `table`.

    Returns:
        (b, h, w, c) float32
    """
    rows = ops.convert_to_tensor(steps.rows)

    def body(number, carry):
        x, before = carry
        row = ops.take(rows, number, axis=0)
        t, second, a, b, c, p, q, r = (row[n] for n in range(8))
        times = ops.zeros_like(x[:, 0, 0, 0])
        estimate = denoise(x, times + t)
        y = a * x + b * estimate + c * before
        if steps.looks == 2:
            y = p * x + q * y + r * denoise(y, times + second)
        return y, estimate

    return ops.fori_loop(0, len(steps.rows), body, (steps.start * noise, ops.zeros_like(noise)))[0]
