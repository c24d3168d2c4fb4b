"""Paired translation: the network's output shall equal the target."""

import math
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from unetkit.objectives.base import Call, Objective, Tensor


def per_sample(values: Tensor) -> Tensor:
    """Mean over everything but the batch, (b, ...) -> (b,)."""
    return ops.mean(values, axis=tuple(range(1, len(values.shape))))


def l1(output: Tensor, target: Tensor) -> Tensor:
    """Mean absolute difference per sample, (b, h, w, c) -> (b,)."""
    return per_sample(ops.abs(output - target))


def l2(output: Tensor, target: Tensor) -> Tensor:
    """Mean squared difference per sample, (b, h, w, c) -> (b,)."""
    return per_sample(ops.square(output - target))


def charbonnier(output: Tensor, target: Tensor, epsilon: float) -> Tensor:
    """sqrt(d^2 + epsilon^2), a smooth L1 (Charbonnier et al. 1994), per sample, (b, h, w, c) -> (b,)."""
    return per_sample(ops.sqrt(ops.square(output - target) + epsilon**2))


def negative_psnr(output: Tensor, target: Tensor) -> Tensor:
    """-PSNR in dB per sample for images in [-1, 1], (b, h, w, c) -> (b,): the loss of HINet (Chen et al. 2021) and NAFNet.

    Its gradient is that of L2 over the sample's own error, so a picture that is nearly right still counts. 100 dB at most.
    """
    return 10.0 / math.log(10.0) * ops.log(l2(output, target) / 4.0 + 1e-10)


def ssim(output: Tensor, target: Tensor) -> Tensor:
    """Structural similarity per sample for images in [-1, 1] (Wang et al. 2004), (b, h, w, c) -> (b,)."""
    return ops.image.ssim(output, target, max_val=2.0)


class Translation(Objective):
    """Pixel losses between output and target.

    Args:
        network: (b, h, w, c) -> (b, h, w, c), output in float32.
        loss: `l1`, `l2`, `charbonnier`, `psnr` (minus the PSNR in dB), or `ssim_l1` = share x (1 - SSIM) + (1 - share) x L1
            (Zhao et al. 2017).
        ssim_share: that share.
        epsilon: of the Charbonnier loss.
    """

    def __init__(self, network: keras.Model, loss: str = "l1", ssim_share: float = 0.84, epsilon: float = 1e-3) -> None:
        super().__init__({"model": network})
        known = {
            "l1": l1,
            "l2": l2,
            "psnr": negative_psnr,
            "charbonnier": lambda a, b: charbonnier(a, b, epsilon),
            "ssim_l1": lambda a, b: ssim_share * (1.0 - ssim(a, b)) + (1.0 - ssim_share) * l1(a, b),
        }
        if loss not in known:
            raise ValueError(f"objective.loss: received {loss!r}, known are {', '.join(known)}.")
        self._loss = known[loss]
        self._pack: Any = None
        if loss != "ssim_l1" and (view := getattr(network, "packed_view", lambda: None)()):  # the others do not ask where a pixel lies
            self.views["model"], self._pack = view

    def prepare(self, batch: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        batch = super().prepare(batch)
        return {name: self._pack.on_host(value) for name, value in batch.items()} if self.views else batch

    def losses(self, call: Call, batch: Mapping[str, Tensor], noise: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        view = self.views.get("model")
        if view is not None and tuple(batch["input"].shape[1:]) != tuple(view.input_shape[1:]):
            batch = {name: self._pack(value) for name, value in batch.items()}
        output = ops.cast(call("model", batch["input"]), "float32")
        loss = self._loss(output, batch["target"])
        return {"model": loss}, {"loss": loss}
