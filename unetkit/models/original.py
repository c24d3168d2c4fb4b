"""The U-Net of the original question, as a preset of `UNet`, and its weights in the order in which it made them."""

from collections.abc import Sequence

import numpy as np

from unetkit import shapes
from unetkit.blocks import checks
from unetkit.errors import UserError
from unetkit.models.unet import UNet


def original_channels(start_ch: int, depth: int, inc_rate: float) -> tuple[int, ...]:
    """Channels per level, outermost first: `int(inc_rate * channels)` level by level, so 5 growing by 1.5 is 5, 7, 10, 15.

    Raises:
        UserError: a level that would have no channels.
    """
    start_ch, depth = checks.count("original_unet", "start_ch", start_ch), checks.count("original_unet", "depth", depth, least=0)
    channels = shapes.grown_channels(start_ch, depth, inc_rate)
    if min(channels) < 1:
        raise UserError(f"original_unet: inc_rate={inc_rate} leaves levels of {list(channels)} channels; each needs 1 or more.")
    return channels


def original_unet(
    input_shape: tuple[int, int, int],
    start_ch: int = 64,
    depth: int = 4,
    inc_rate: float = 2.0,
    dropout: float = 0.5,
    batchnorm: bool = False,
    maxpool: bool = True,
    upconv: bool = True,
    residual: bool = False,
    leaky_relu_alpha: float | None = None,
    output_channels: int | None = None,
    packing: tuple[tuple[int, ...], ...] = (),
    name: str = "unet",
    dtype=None,
) -> UNet:
    """The original network under its own argument names and with its exact meaning.

    The original never told its layers that it was training, so its dropout did nothing and its batch norm used the moving
    statistics even then: compare with it by `training=False`. In `fit` this one follows `training`, as Keras models do.

    Args:
        input_shape: (height, width, channels).
        start_ch: channels of the first level.
        depth: number of halvings.
        inc_rate: growth of the channels per level: `int(inc_rate * channels)`.
        dropout: rate between the two convolutions at the bottom, and nowhere else.
        batchnorm: batch norm (epsilon 1e-3) after each activation of a block.
        maxpool: max-pool; False: a linear 3x3 convolution with stride 2.
        upconv: nearest resize, 2x2 convolution, leaky ReLU; False: 3x3 transposed convolution with stride 2, leaky ReLU.
        residual: a block concatenates its input, in front, to its result.
        leaky_relu_alpha: slope of leaky ReLU below zero (None: 0.2; 0 is ReLU).
        output_channels: channels of the output (None: those of the input).
        packing: as of `UNet`.
        name: name of the model.
        dtype: precision policy (None: Keras' current one).

    Returns:
        A `UNet`; `load_original_weights` fills it.
    """
    if leaky_relu_alpha is not None and not leaky_relu_alpha >= 0:
        raise UserError(f"original_unet: leaky_relu_alpha={leaky_relu_alpha!r} must be 0 or more (0 is ReLU, None is 0.2).")
    return UNet(
        input_shape,
        output_channels=output_channels,
        levels=original_channels(start_ch, depth, inc_rate),
        norm="batch" if batchnorm else "none",
        norm_first=False,
        activation="leaky_relu",
        negative_slope=leaky_relu_alpha,
        residual="concat" if residual else "none",
        dropout=dropout,
        down="max_pool" if maxpool else "strided_conv",
        up="nearest_conv" if upconv else "transposed_conv",
        up_kernel_size=2 if upconv else 3,
        packing=packing,
        name=name,
        dtype=dtype,
    )


def load_original_weights(model: UNet, arrays: Sequence[np.ndarray]) -> None:
    """Fills a model of `original_unet` with the original's variables.

    Args:
        model: built with the original's arguments.
        arrays: all variables in the order in which the original created them, moving statistics included: convolution kernels
            (rows, columns, in, out), transposed ones (rows, columns, out, in), batch norm as gamma, beta, mean, variance.

    Raises:
        UserError: another number of arrays, or one of another shape; the model is then left as it was.
    """
    arrays = [np.asarray(array) for array in arrays]
    weights = model.weights
    if len(arrays) != len(weights):
        raise UserError(
            f"load_original_weights: received {len(arrays)} arrays, but the model has {len(weights)} weights; "
            "its arguments must be the original's (batchnorm and maxpool=False add weights)."
        )
    for number, (weight, array) in enumerate(zip(weights, arrays, strict=True)):
        if tuple(weight.shape) != array.shape:
            raise UserError(
                f"load_original_weights: array {number} is {array.shape}, but {weight.path} is {tuple(weight.shape)}; "
                "the arrays must be in creation order and the model's arguments the original's."
            )
    for weight, array in zip(weights, arrays, strict=True):
        weight.assign(array)
