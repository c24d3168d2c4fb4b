"""The built-in signals: tunes of decaying harmonic tones, each a pure function of its number."""

from __future__ import annotations

import numpy as np

from unetkit.data.order import TONES, generator

SCALE = (0, 2, 4, 7, 9)  # semitones of a pentatonic scale, in which any two tones go together
LOWEST_HZ, OCTAVES = 110.0, 3
PARTIALS = 6
NOTE_SECONDS, DECAY_SECONDS, ATTACK_SECONDS = (0.08, 0.4), (0.05, 0.5), 0.005
TUNE_SECONDS = 4.0


def tune(number: int, start: int, count: int, rate: int) -> np.ndarray:
    """Samples `start` to `start + count` of a tune, (count,) float32 within [-1, 1]; tunes go round after `TUNE_SECONDS`."""
    random = generator(0, TONES, number)
    seconds = (np.arange(start, start + count) / rate) % TUNE_SECONDS
    made, begin = np.zeros(count), 0.0
    while begin < TUNE_SECONDS:
        length, decay, level = random.uniform(*NOTE_SECONDS), random.uniform(*DECAY_SECONDS), random.uniform(0.1, 0.4)
        step = int(random.integers(OCTAVES * len(SCALE)))
        pitch = LOWEST_HZ * 2 ** (step // len(SCALE) + SCALE[step % len(SCALE)] / 12)
        bright, phases = random.uniform(0.8, 2.0), random.uniform(0, 2 * np.pi, PARTIALS)
        where = np.flatnonzero((seconds >= begin) & (seconds < begin + 4 * decay))
        since = seconds[where] - begin
        shape = level * np.exp(-since / decay) * np.minimum(since / ATTACK_SECONDS, 1.0)
        for partial in range(1, PARTIALS + 1):
            if partial * pitch < 0.45 * rate:
                made[where] += shape * partial**-bright * np.sin(2 * np.pi * partial * pitch * since + phases[partial - 1])
        begin += length
    return np.tanh(made).astype(np.float32)
