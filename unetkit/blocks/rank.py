"""Keras' layers by the number of an array's spatial axes: 1 for signals (b, w, c), 2 for images (b, h, w, c)."""

from typing import NamedTuple

import keras

from unetkit.errors import UserError


class Layers(NamedTuple):
    """The layer classes of one rank."""

    conv: type[keras.layers.Layer]
    transposed_conv: type[keras.layers.Layer]
    max_pool: type[keras.layers.Layer]
    repeat: type[keras.layers.Layer]


LAYERS = {
    1: Layers(keras.layers.Conv1D, keras.layers.Conv1DTranspose, keras.layers.MaxPooling1D, keras.layers.UpSampling1D),
    2: Layers(keras.layers.Conv2D, keras.layers.Conv2DTranspose, keras.layers.MaxPooling2D, keras.layers.UpSampling2D),
}


def check_rank(owner: str, rank: int) -> int:
    """The rank, which must be 1 or 2; `owner` begins the message of the UserError that says so."""
    if isinstance(rank, bool) or rank not in LAYERS:
        raise UserError(f"{owner}: rank={rank!r} must be 1, for signals, or 2, for images.")
    return rank
