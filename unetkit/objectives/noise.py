"""Random numbers of objectives: keyed normal draws on the host, and what is made of normal numbers."""

from collections.abc import Iterable, Mapping
from typing import Any
from zlib import crc32

import numpy as np
from keras import ops

Tensor = Any


def keyed_normal(shapes: Mapping[str, tuple[int, ...]], seed: int, numbers: Iterable[int]) -> dict[str, np.ndarray]:
    """Standard-normal numbers for each image: name -> (b, *shape) float32, a function of (seed, name, image number) alone.

    Args:
        shapes: name -> shape per image.
        seed: of the run or of the command.
        numbers: one for each row; equal numbers get equal noise.
    """
    keys = [int(number) for number in numbers]
    return {
        name: np.stack([np.random.default_rng([seed, crc32(name.encode()), key]).standard_normal(shape, np.float32) for key in keys])
        for name, shape in shapes.items()
    }


def uniform(normal: Tensor) -> Tensor:
    """Standard-normal numbers -> uniform ones in (0, 1): u = (1 + erf(z / sqrt 2)) / 2, the normal distribution's own function."""
    return 0.5 * (1.0 + ops.erf(normal * 0.5**0.5))
