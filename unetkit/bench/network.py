"""The network that is measured: a plain U-Net that takes any size, as most people write one."""

from __future__ import annotations

from collections.abc import Sequence

import keras
from keras import layers


def plain_unet(rank: int, channels: Sequence[int]) -> keras.Model:
    """(b, any, 1) or (b, any, any, 3) -> the same, whose sides halve once per level but the last: convolutions and pools."""
    conv, pool, repeat = {
        1: (layers.Conv1D, layers.MaxPooling1D, layers.UpSampling1D),
        2: (layers.Conv2D, layers.MaxPooling2D, layers.UpSampling2D),
    }[rank]
    out = 1 if rank == 1 else 3
    image = x = keras.Input((None,) * rank + (out,))
    skips = []
    for number in channels[:-1]:
        x = conv(number, 3, padding="same", activation="relu")(x)
        skips.append(x)
        x = pool(2)(x)
    x = conv(channels[-1], 3, padding="same", activation="relu")(x)
    for number, skip in zip(channels[-2::-1], skips[::-1], strict=True):
        x = layers.Concatenate()([skip, repeat(2)(x)])
        x = conv(number, 3, padding="same", activation="relu")(x)
    return keras.Model(image, conv(out, 1)(x))
