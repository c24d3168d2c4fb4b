"""Keras layers that a U-Net is built from, each open to subclassing. `docs/blocks.md` shows how."""

import keras  # noqa: F401  first, since its first import makes `keras_hook` import this room and `models` too

from unetkit.blocks.attention import SelfAttention
from unetkit.blocks.base import Block, Downsample, Upsample
from unetkit.blocks.conv import ConvBlock
from unetkit.blocks.head import Head
from unetkit.blocks.level import Level
from unetkit.blocks.norm import GroupNorm
from unetkit.blocks.remat import rematerialize
from unetkit.blocks.resample import MaxPool, NearestConv, StridedConv, TransposedConv

__all__ = [
    "Block",
    "ConvBlock",
    "Downsample",
    "GroupNorm",
    "Head",
    "Level",
    "MaxPool",
    "NearestConv",
    "SelfAttention",
    "StridedConv",
    "TransposedConv",
    "Upsample",
    "rematerialize",
]
