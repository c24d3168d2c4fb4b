"""Order and chance as arithmetic: what sample k is depends on (seed, k) alone, so resuming needs no saved iterator.

`grain` (0.2.18) carries the same idea and was tried: `time python -c 'import grain'` took 1.5 s on two cores, because
it loads JAX into every process that has it, TensorFlow's included; without JAX it logs a warning through absl. What is
needed of it are these few lines and the thread pool in `loader.py`.
"""

from __future__ import annotations

import functools
import hashlib

import numpy as np

ORDER, AUGMENT, TASK, TONES = range(4)


def generator(seed: int, stream: int, number: int) -> np.random.Generator:
    """The random numbers of one (seed, stream, number); any two of these are independent.

    Philox is counter-based: `number` stands in the counter's last word, so that streams cannot run into each other.
    """
    return np.random.Generator(np.random.Philox(key=[seed, stream], counter=[0, 0, 0, number]))


def digest(name: str) -> int:
    """63 bits that depend on the name alone, the same in every process and version."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


class Order:
    """Which of `count` items sample k is: every epoch holds each once, in an order of its own."""

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed = count, seed
        # Two: samples read ahead may already belong to the next epoch.
        self._permutation = functools.lru_cache(maxsize=2)(self._shuffled)

    def _shuffled(self, epoch: int) -> np.ndarray:
        return generator(self.seed, ORDER, epoch).permutation(self.count)

    def index(self, k: int, shuffle: bool = True) -> int:
        """The item of sample k."""
        epoch, place = divmod(k, self.count)
        return int(self._permutation(epoch)[place]) if shuffle else place
