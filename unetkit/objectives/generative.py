"""What flow and diffusion share: a network that turns noise into an image in many small steps, with or without a condition."""

from collections.abc import Mapping
from statistics import NormalDist

import keras
import numpy as np
from keras import ops

from unetkit.objectives.base import Call, Objective, Tensor
from unetkit.objectives.noise import keyed_normal
from unetkit.objectives.processes import Process, per_pixel
from unetkit.objectives.samplers import integrate, table
from unetkit.objectives.translation import l2

GAMMA = {"min_snr": 5.0, "soft_min_snr": 4.0}


def clean_weight(snr: Tensor, weighting: str, gamma: float) -> Tensor:
    """Weight of the squared error of the clean image, by signal-to-noise ratio, (b,) -> (b,).

    min_snr: min(snr, gamma) (Hang et al. 2023); soft_min_snr: snr gamma / (snr + gamma) (Crowson et al. 2024).
    """
    return ops.minimum(snr, gamma) if weighting == "min_snr" else snr * (gamma / (snr + gamma))


class Generative(Objective):
    """Learns to remove noise, and makes images by removing it step by step. See `Flow` and `Diffusion` for the arguments.

    The network takes a list: the noisy image, with the condition image behind it in the channels where there is one; the
    noise level as `Process.embed` tells it, (b,); and the class, (b,), where there are classes (their number: no class).
    """

    scored_by_loss = True

    def __init__(
        self,
        network: keras.Model,
        process: Process,
        *,
        condition: str,
        condition_dropout: float,
        weighting: str,
        gamma: float | None,
        sampler: str,
        steps: int,
        guidance: float,
        clip: bool,
    ) -> None:
        super().__init__({"model": network})
        self.process, self.condition, self.clip, self.guidance = process, condition, clip, guidance
        self.dropout = 0.0 if condition == "none" else condition_dropout
        if guidance != 1.0 and self.dropout == 0.0:
            raise ValueError(f"objective.guidance: {guidance} needs a network that also works without its condition: condition_dropout.")
        if weighting not in ("none", *GAMMA):
            raise ValueError(f"objective.weighting: received {weighting!r}, known are none, {', '.join(GAMMA)}.")
        self.weighting, self.gamma = weighting, gamma or GAMMA.get(weighting, 1.0)
        self.steps = table(sampler, process.grid(steps), process.straight)
        self.classes = getattr(network, "classes", 0)

    @property
    def image_shape(self) -> tuple[int, ...]:
        """(h, w, c) of an image."""
        return tuple(self.networks["model"].outputs[0].shape[1:])

    def batch_shapes(self) -> dict[str, tuple[int, ...]]:
        shape = self.image_shape
        condition = {"image": {"input": (*shape[:-1], self.networks["model"].inputs[0].shape[-1] - shape[-1])}, "class": {"label": ()}}
        return {"target": shape} | condition.get(self.condition, {})

    def prepare(self, batch: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        return {name: batch[name] for name in self.batch_shapes()}

    def draws(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return {"noise": tuple(shapes["target"]), "time": ()} | ({"drop": ()} if self.dropout else {})

    def losses(self, call: Call, batch: Mapping[str, Tensor], noise: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        clean, t = batch["target"], self.process.time(noise["time"])
        alpha, sigma = self.process.scales(t)
        x = per_pixel(alpha, clean) * clean + per_pixel(sigma, clean) * noise["noise"]
        dropped = None
        if self.dropout:  # a share of the normal distribution's lower end
            dropped = ops.cast(noise["drop"] < NormalDist().inv_cdf(self.dropout), "float32")
        output = self.output(call, x, t, self.conditions(batch, dropped))
        loss = l2(output, self.process.target(clean, noise["noise"], t))
        if self.weighting != "none":
            snr = alpha**2 / ops.maximum(sigma**2, 1e-12)
            loss = loss * clean_weight(snr, self.weighting, self.gamma) * self.process.error_scale(t) ** 2
        return {"model": loss}, {"loss": loss}

    def conditions(self, batch: Mapping[str, Tensor], dropped: Tensor | None = None) -> list[Tensor]:
        """The condition as the network takes it: [image] or [class], [] without one.

        Args:
            batch: with `input` or `label`.
            dropped: (b,), 1 where the network shall not see it: a grey image, or no class.
        """
        if self.condition == "image":
            given = batch["input"]
            return [given if dropped is None else given * per_pixel(1.0 - dropped, given)]
        if self.condition == "class":
            label = batch["label"]
            return [label if dropped is None else label + dropped * (self.classes - label)]
        return []

    def output(self, call: Call, x: Tensor, t: Tensor, conditions: list[Tensor]) -> Tensor:
        """F of the noisy image, (b, h, w, c) float32."""
        x = x * per_pixel(self.process.input_scale(t), x)
        if self.condition == "image":
            x, conditions = ops.concatenate([x, *conditions], axis=-1), []
        return ops.cast(call("model", [x, self.process.embed(t), *conditions]), "float32")

    def request(self, batch: Mapping[str, np.ndarray], seed: int, numbers: np.ndarray) -> dict[str, np.ndarray]:
        kept = {name: batch[name] for name in self.batch_shapes() if name != "target"}
        return kept | keyed_normal({"noise": self.image_shape}, seed, numbers)

    def predict(self, call: Call, batch: Mapping[str, Tensor]) -> Tensor:
        conditions = self.conditions(batch)
        if self.guidance != 1.0:
            nothing = self.conditions(batch, ops.ones_like(batch["noise"][:, 0, 0, 0]))
            conditions = [ops.concatenate(both, axis=0) for both in zip(conditions, nothing, strict=True)]

        def denoise(x: Tensor, t: Tensor) -> Tensor:
            if self.guidance == 1.0:
                clean = self.process.clean(x, self.output(call, x, t, conditions), t)
            else:  # classifier-free guidance (Ho and Salimans 2022, eq. 6), on the estimates of the clean image
                twice, times = ops.concatenate([x, x], axis=0), ops.concatenate([t, t], axis=0)
                both = self.process.clean(twice, self.output(call, twice, times, conditions), times)
                told, free = ops.split(both, 2, axis=0)
                clean = free + self.guidance * (told - free)
            return ops.clip(clean, -1.0, 1.0) if self.clip else clean

        return integrate(denoise, batch["noise"], self.steps)
