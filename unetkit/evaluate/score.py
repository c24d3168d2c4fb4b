"""Metrics over a whole split, and over the answers that need no network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from unetkit.errors import UserError, WorkError
from unetkit.evaluate.metrics import METRICS, to_unit_range

Predict = Callable[[np.ndarray], np.ndarray]

# Luma of ITU-R BT.601, section 2.5.1: what Pillow's conversion to grey uses as well.
LUMA = (0.299, 0.587, 0.114)


class Split(Protocol):
    """What is needed of `unetkit.data.Split`."""

    def __len__(self) -> int: ...

    def every(self, batch: int) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        """All samples once, in order; the last batch is filled up, and the number says how many of it are real."""
        ...


class Dataset(Protocol):
    """What is needed of `unetkit.data.Dataset`."""

    train: Split
    validation: Split


class NotFinite(WorkError):
    """An output holds NaN or infinite values."""


def score(predict: Predict, split: Split, batch: int) -> dict[str, float]:
    """Mean L1, PSNR and SSIM over all samples of a split, each counted once: {"l1", "psnr", "ssim"}.

    Args:
        predict: (batch, h, w, c) float32 in [-1, 1] -> the same shape with the target's channels. Always whole batches.
        split: inputs and targets in [-1, 1].
        batch: samples per call of `predict`.

    Raises:
        UserError: the split is empty, or outputs and targets differ in shape.
        WorkError: an output is not finite.
    """
    return score_all({"": predict}, split, batch)[""]


def evaluate(predict: Predict, dataset: Dataset, batch: int, show: Callable[[int], None] = lambda done: None) -> dict[str, Any]:
    """Metrics over all validation images, beside the trivial answers; `show` is told how many are done.

    Returns:
        {images, l1, psnr, ssim, baselines: {input, mean_color, mean_image: {l1, psnr, ssim}}}.

    Raises:
        UserError: there are no validation images.
        WorkError: an output is not finite.
    """
    answers = score_all({"": predict, **baselines(dataset.train, batch)}, dataset.validation, batch, show)
    return {"images": len(dataset.validation), **answers.pop(""), "baselines": answers}


def baselines(train: Split, batch: int) -> dict[str, Predict]:
    """The trivial answers: the input itself, the training targets' mean colour, and their mean image."""
    total: Any = 0.0
    for arrays, real in train.every(batch):
        total = total + np.asarray(arrays["target"][:real], np.float64).sum(axis=0)
    mean_image = total / len(train)  # (h, w, c)
    mean_color = mean_image.mean(axis=(0, 1))  # (c,)
    return {
        "input": lambda inputs: with_channels(inputs, len(mean_color)),
        "mean_color": lambda inputs: np.broadcast_to(mean_color, (len(inputs), *mean_image.shape)),
        "mean_image": lambda inputs: np.broadcast_to(mean_image, (len(inputs), *mean_image.shape)),
    }


def with_channels(images: np.ndarray, channels: int) -> np.ndarray:
    """Images with 1 (grey), 3 (RGB) or 4 (RGBA) channels -> the same with `channels`.

    Grey is repeated, RGB becomes its luma (ITU-R BT.601); alpha is dropped, or added as opaque.
    """
    if images.shape[-1] == channels:
        return images
    color = images[..., :3]
    if channels == 1:
        return color @ np.asarray(LUMA, images.dtype)[:, None]
    color = np.broadcast_to(color, (*images.shape[:-1], 3))
    return color if channels == 3 else np.concatenate([color, np.ones_like(color[..., :1])], axis=-1)


def score_all(
    predictions: dict[str, Predict], split: Split, batch: int, show: Callable[[int], None] = lambda done: None
) -> dict[str, dict[str, float]]:
    """`score` for several answers in one pass over the split; `show` is told how many samples are done."""
    if not len(split):
        raise UserError("there are no images to evaluate on: data.split.validation leaves none. Give it a share such as 0.1")
    sums = {name: dict.fromkeys(METRICS, 0.0) for name in predictions}
    done = 0
    for arrays, real in split.every(batch):
        targets = to_unit_range(arrays["target"][:real])
        for name, predict in predictions.items():
            outputs = np.asarray(predict(arrays["input"]))[:real]
            if outputs.shape != targets.shape:
                raise UserError(
                    f"the network makes outputs of {outputs.shape[1:]}, and the data's targets are {targets.shape[1:]}: "
                    "data.target_channels and model.output_channels must agree"
                )
            if not np.isfinite(outputs).all():
                raise NotFinite("the network's output holds values that are no numbers (NaN or infinite); metrics of it mean nothing")
            outputs = to_unit_range(outputs)
            for metric, function in METRICS.items():
                sums[name][metric] += float(function(outputs, targets).sum())
        done += real
        show(done)
    return {name: {metric: total / len(split) for metric, total in of.items()} for name, of in sums.items()}
