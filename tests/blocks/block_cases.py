"""Every shipped layer in the options that change what it computes. The first of each class also runs under JAX."""

import numpy as np

from unetkit.blocks import (
    BilinearConv,
    ClassEmbedding,
    ConvBlock,
    GroupNorm,
    Head,
    Level,
    MaxPool,
    ModulatedBlock,
    NearestConv,
    SelfAttention,
    StridedConv,
    TimeEmbedding,
    TransposedConv,
)

CASES = {
    "conv": (ConvBlock, {"dropout": 0.3, "residual": "add"}),
    "conv-instance-concat": (ConvBlock, {"norm": "instance", "residual": "concat"}),
    "conv-batch-leaky-5x5": (
        ConvBlock,
        {"norm": "batch", "norm_first": False, "activation": "leaky_relu", "negative_slope": 0.1, "kernel_size": 5},
    ),
    "conv-layer": (ConvBlock, {"norm": "layer", "activation": "gelu"}),
    "conv-filter-response": (ConvBlock, {"norm": "filter_response", "activation": "linear"}),
    "conv-none": (ConvBlock, {"norm": "none", "activation": "relu"}),
    "max-pool": (MaxPool, {}),
    "strided-conv": (StridedConv, {}),
    "transposed-conv": (TransposedConv, {"kernel_size": 4, "activation": "leaky_relu", "negative_slope": 0.3}),
    "nearest-conv": (NearestConv, {"kernel_size": 2, "activation": "relu"}),
    "bilinear-conv": (BilinearConv, {}),
    "modulated": (ModulatedBlock, {"embedding": 6, "embedding_channels": 6, "residual": "add", "dropout": 0.3}),
    "modulated-norm-last": (ModulatedBlock, {"embedding": 6, "embedding_channels": 6, "norm": "instance", "norm_first": False}),
    "modulated-without-embedding": (ModulatedBlock, {"norm": "batch", "residual": "concat"}),
    "time": (TimeEmbedding, {"inputs": [np.array([0.3, -1.1], "float32")]}),
    "class": (ClassEmbedding, {"inputs": [np.array([0, 3], "int32")], "classes": 3}),
    "head": (Head, {"channels": 3}),
    "head-zero": (Head, {"channels": 3, "zero_init": True}),
    "head-linear": (Head, {"channels": 3, "activation": "linear"}),
    "attention": (SelfAttention, {"heads": 2, "groups": 2}),
    "attention-none": (SelfAttention, {"heads": 1, "norm": "none"}),
    "group-norm": (GroupNorm, {"groups": 2, "epsilon": 1e-4}),
    "level": (Level, {"blocks": 2, "block_args": {"norm": "none"}}),
    "level-embedded": (
        Level,
        {"embedding": 6, "block": "modulated", "block_args": {"embedding_channels": 6, "residual": "add"}, "attention": True},
    ),
    "level-attention": (Level, {"block_args": {"norm": "layer"}, "attention": True, "attention_args": {"heads": 2}}),
}

SIGNALS = {  # the same layers on (b, w, c)
    "conv": (ConvBlock, {"residual": "add", "rank": 1}),
    "max-pool": (MaxPool, {"rank": 1}),
    "strided-conv": (StridedConv, {"rank": 1}),
    "transposed-conv": (TransposedConv, {"kernel_size": 4, "rank": 1}),
    "nearest-conv": (NearestConv, {"kernel_size": 2, "rank": 1}),
    "bilinear-conv": (BilinearConv, {"rank": 1}),
    "modulated": (ModulatedBlock, {"embedding": 6, "embedding_channels": 6, "residual": "add", "rank": 1}),
    "head": (Head, {"channels": 1, "rank": 1}),
    "attention": (SelfAttention, {"heads": 2, "groups": 2}),
    "level": (Level, {"block_args": {"norm": "instance", "rank": 1}}),
}


def first_of_each_class():
    return {name: case for name, case in CASES.items() if case is next(c for c in CASES.values() if c[0] is case[0])}
