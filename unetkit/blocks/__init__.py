"""Keras layers that a U-Net is built from, each open to subclassing. `docs/blocks.md` shows how."""

import keras  # noqa: F401  first, since its first import makes `keras_hook` import this room and `models` too

from unetkit.blocks.attention import SelfAttention
from unetkit.blocks.base import Block, Downsample, Upsample
from unetkit.blocks.conv import ConvBlock
from unetkit.blocks.embedding import ClassEmbedding, TimeEmbedding
from unetkit.blocks.head import Head
from unetkit.blocks.level import Level
from unetkit.blocks.modulated import ConditionedBlock, ModulatedBlock
from unetkit.blocks.norm import GroupNorm
from unetkit.blocks.remat import rematerialize
from unetkit.blocks.resample import BilinearConv, MaxPool, NearestConv, StridedConv, TransposedConv

__all__ = [
    "BilinearConv",
    "Block",
    "ClassEmbedding",
    "ConditionedBlock",
    "ConvBlock",
    "Downsample",
    "GroupNorm",
    "Head",
    "Level",
    "MaxPool",
    "ModulatedBlock",
    "NearestConv",
    "SelfAttention",
    "StridedConv",
    "TimeEmbedding",
    "TransposedConv",
    "Upsample",
    "rematerialize",
]
