"""The section `model` of the recipe: both presets, their keys, defaults and bounds. See `schema.py` for the conventions."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from unetkit.recipe.declare import CLASS_FORM, DOTTED_CLASS, Short, key


@dataclass(frozen=True, kw_only=True)
class Level:
    """One resolution of the U-Net. `null` takes the model's own value."""

    channels: int = key(help="channels of this level's convolutions", least=1)
    blocks: int | None = key(None, "blocks on each side of this level", least=1)
    norm: Literal["none", "batch", "group", "instance", "layer", "filter_response"] | None = key(None, "normalisation")
    dropout: float | None = key(None, "dropout rate inside this level's blocks", least=0.0, below=1.0)
    attention: bool = key(False, "self-attention after this level's blocks")


Lowering = Literal["plain", "packed", "auto"]

Norm = Literal["none", "batch", "group", "instance", "layer", "filter_response"]

Activation = Literal[
    "celu", "elu", "exponential", "gelu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "leaky_relu",
    "linear", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_shrink", "softplus", "softsign",
    "sparse_plus", "sparse_sigmoid", "squareplus", "swish", "tanh", "tanh_shrink",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class UNet:
    """A U-Net from one spec per level, outermost first; the last one is the bottom."""

    preset: Literal["unet"] = "unet"
    rank: Literal[1, 2] = key(2, "2 for images, 1 for signals")
    levels: tuple[Annotated[Level, Short("channels")], ...] = key(
        (Level(channels=32), Level(channels=64), Level(channels=128), Level(channels=256)),
        "one entry per level: its channels, or a section",
    )
    block: str = key(
        "conv",
        "conv; modulated, which follows a noise level or class; or your own `package.module:Class`",
        pattern=f"conv|modulated|{DOTTED_CLASS}",
        form=f"conv, modulated, or {CLASS_FORM}",
    )
    block_args: dict[str, Any] = dataclasses.field(default_factory=dict, metadata={"help": "arguments for your own block"})
    blocks: int = key(1, "blocks per level and side", least=1)
    kernel_size: int = key(3, "kernel of the blocks' convolutions, odd", least=1)
    norm: Norm = key("group", "normalisation; filter_response brings a learned threshold, so that `activation: linear` goes with it")
    groups: int = key(8, "channel groups of group norm (the largest divisor of the channels up to this)", least=1)
    norm_first: bool = key(True, "convolution, norm, activation; false: convolution, activation, norm")
    activation: Activation = key("silu", "a Keras activation by name")
    negative_slope: float | None = key(None, "slope of leaky_relu below zero (null: 0.2)", least=0.0)
    residual: Literal["none", "add", "concat"] = key("none", "what a block does with its input")
    dropout: float = key(0.0, "dropout rate between the convolutions of the bottom level's blocks", least=0.0, below=1.0)
    down: Literal["max_pool", "strided_conv"] = key("max_pool", "how a level halves the resolution")
    up: Literal["transposed_conv", "nearest_conv", "bilinear_conv"] = key("nearest_conv", "how a level doubles it")
    up_kernel_size: int = key(3, "kernel of the up-sampler's convolution", least=1)
    heads: int = key(4, "attention heads", least=1)
    output_channels: int | None = key(None, "channels of the output (null: data.target_channels)", least=1)
    output_activation: Literal["tanh", "linear"] = key("tanh", "last activation, always in float32")
    embedding_channels: int | None = key(None, "channels of the embedding of noise level and class (null: 4 x the first level's)", least=2)
    head_norm: bool = key(False, "norm and activation before the last convolution, for blocks that end in a sum")
    zero_init: bool = key(False, "the last convolution starts at zero")
    lowering: Lowering = key("plain", "how it is laid out for a TPU: plain, packed as `packing` says, or auto: as its compiler likes best")
    packing: tuple[tuple[int, ...], ...] = key(
        (), "pixels per axis that each level keeps in the lanes, outermost first; levels left out are plain", least=1
    )


@dataclass(frozen=True, kw_only=True)
class Original:
    """The U-Net of the original question, under its own argument names and with its exact meaning."""

    preset: Literal["original"] = "original"
    start_ch: int = key(64, "channels of the first level", least=1)
    depth: int = key(4, "number of halvings", least=0, most=12)
    inc_rate: float = key(2.0, "growth of the channels per level: int(inc_rate * channels)", above=0.0)
    dropout: float = key(0.5, "dropout rate between the two convolutions at the bottom", least=0.0, below=1.0)
    batchnorm: bool = key(False, "batch norm after each activation")
    maxpool: bool = key(True, "max-pool; false: 3x3 convolution with stride 2")
    upconv: bool = key(True, "nearest resize and 2x2 convolution; false: 3x3 transposed convolution with stride 2")
    residual: bool = key(False, "concatenate a block's input to its output")
    leaky_relu_alpha: float | None = key(None, "slope of leaky ReLU below zero (null: 0.2)", least=0.0)
    output_channels: int | None = key(None, "channels of the output (null: data.target_channels)", least=1)
    lowering: Lowering = key("plain", "how it is laid out for a TPU: plain, packed as `packing` says, or auto: as its compiler likes best")
    packing: tuple[tuple[int, ...], ...] = key(
        (), "pixels per axis that each level keeps in the lanes, outermost first; levels left out are plain", least=1
    )
