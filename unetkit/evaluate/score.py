"""Metrics over a whole split, and over the answers that need no network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from unetkit.errors import UserError, WorkError
from unetkit.evaluate.metrics import METRICS, SIGNAL_METRICS, per_sample, snr, to_unit_range

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
    """Mean L1, PSNR and SSIM over all samples of a split, each counted once: {"l1", "psnr", "ssim"}; of signals, {"l1", "psnr", "snr"}.

    Args:
        predict: (batch, h, w, c) or (batch, w, c) float32 in [-1, 1] -> the same shape with the target's channels. Always whole batches.
        split: inputs and targets in [-1, 1].
        batch: samples per call of `predict`.

    Raises:
        UserError: the split is empty, or outputs and targets differ in shape.
        WorkError: an output is not finite.
    """
    return score_all({"": predict}, split, batch)[""]


def score_loss(measure: Callable[[dict[str, np.ndarray], np.ndarray], dict[str, np.ndarray]], split: Split, batch: int) -> dict[str, float]:
    """{"loss"}: the objective's mean loss over all samples of a split, each counted once and with noise of its own number.

    Args:
        measure: (batch of arrays, (batch,) sample numbers) -> name -> (batch,), `loss` among them.
        split: inputs and targets in [-1, 1].
        batch: samples per call of `measure`.
    """
    done, total = 0, 0.0
    for arrays, real in split.every(batch):
        numbers = np.minimum(np.arange(done, done + batch), len(split) - 1)
        total += float(np.sum(measure(arrays, numbers)["loss"][:real], dtype=np.float64))
        done += real
    return {"loss": total / len(split)}


def evaluate(predict: Predict, dataset: Dataset, batch: int, show: Callable[[int], None] = lambda done: None) -> dict[str, Any]:
    """Metrics over all validation images or signals, beside the trivial answers; `show` is told how many are done.

    Returns:
        {images, l1, psnr, ssim, baselines: {input, mean_color, mean_image: {l1, psnr, ssim}}}; of signals
        {signals, l1, psnr, snr, baselines: {input, silence: {l1, psnr, snr}}}.

    Raises:
        UserError: there are no validation images.
        WorkError: an output is not finite.
    """
    trivial = baselines(dataset.train, batch)
    answers = score_all({"": predict, **trivial}, dataset.validation, batch, show)
    what = "signals" if "silence" in trivial else "images"
    return {what: len(dataset.validation), **answers.pop(""), "baselines": answers}


def baselines(train: Split, batch: int) -> dict[str, Predict]:
    """The trivial answers: the input itself, the training targets' mean colour, and their mean image; for signals, silence."""
    total: Any = 0.0
    for arrays, real in train.every(batch):
        if arrays["target"].ndim == 3:
            return signal_baselines(arrays["target"].shape[1:])
        total = total + np.asarray(arrays["target"][:real], np.float64).sum(axis=0)
    mean_image = total / len(train)  # (h, w, c)
    mean_color = mean_image.mean(axis=(0, 1))  # (c,)
    return {
        "input": lambda inputs: with_channels(inputs, len(mean_color)),
        "mean_color": lambda inputs: np.broadcast_to(mean_color, (len(inputs), *mean_image.shape)),
        "mean_image": lambda inputs: np.broadcast_to(mean_image, (len(inputs), *mean_image.shape)),
    }


def signal_baselines(shape: tuple[int, ...]) -> dict[str, Predict]:
    """The input itself, where it has the channels of the target, else their mean in each; and silence. `shape` is (w, c)."""

    def same(inputs: np.ndarray) -> np.ndarray:
        if inputs.shape[-1] == shape[-1]:
            return inputs
        return np.broadcast_to(inputs.mean(axis=-1, keepdims=True), (len(inputs), *shape))

    return {"input": same, "silence": lambda inputs: np.zeros((len(inputs), *shape), np.float32)}


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
    tallies = {name: Tally() for name in predictions}
    done = 0
    for arrays, real in split.every(batch):
        targets = arrays["target"][:real]
        for name, predict in predictions.items():
            outputs = np.asarray(predict(arrays["input"]))[:real]
            if outputs.shape != targets.shape:
                raise UserError(
                    f"the network makes outputs of {outputs.shape[1:]}, and the data's targets are {targets.shape[1:]}: "
                    "data.target_channels and model.output_channels must agree"
                )
            if not np.isfinite(outputs).all():
                raise NotFinite("the network's output holds values that are no numbers (NaN or infinite); metrics of it mean nothing")
            tallies[name].add(outputs, targets)
        done += real
        show(done)
    return {name: tally.means(len(split)) for name, tally in tallies.items()}


class Tally:
    """Sums of metrics over samples: images (b, h, w, c) or signals (b, w, c), in [-1, 1]."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.signals = False

    def add(self, outputs: np.ndarray, targets: np.ndarray) -> None:
        self.signals = targets.ndim == 3
        ours, truth = to_unit_range(outputs), to_unit_range(targets)
        found = {name: metric(ours, truth) for name, metric in (SIGNAL_METRICS if self.signals else METRICS).items()}
        if self.signals:
            found |= {"energy": per_sample((2 * truth - 1) ** 2), "error": per_sample((2 * (ours - truth)) ** 2)}
        for name, values in found.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(values.sum())

    def means(self, count: int) -> dict[str, float]:
        means = {name: total / count for name, total in self.sums.items()}
        if self.signals:
            means["snr"] = snr(means.pop("energy"), means.pop("error"))
        return means
