"""Paired translation against a discriminator: pix2pix (Isola et al. 2017)."""

from collections.abc import Mapping

import keras
from keras import ops

from unetkit.objectives.base import Call, Objective, Tensor
from unetkit.objectives.translation import l1, per_sample

LOSSES = ("vanilla", "least_squares", "hinge")


def real_loss(logits: Tensor, loss: str) -> Tensor:
    """What the discriminator pays for its answers on true pairs, (b, ...) -> (b,)."""
    if loss == "vanilla":
        return per_sample(ops.softplus(-logits))
    return per_sample(ops.square(logits - 1.0) if loss == "least_squares" else ops.relu(1.0 - logits))


def fake_loss(logits: Tensor, loss: str) -> Tensor:
    """What it pays for its answers on made pairs, (b, ...) -> (b,)."""
    if loss == "vanilla":
        return per_sample(ops.softplus(logits))
    return per_sample(ops.square(logits) if loss == "least_squares" else ops.relu(1.0 + logits))


def fooling_loss(logits: Tensor, loss: str) -> Tensor:
    """What the network that made them pays for the same answers, (b, ...) -> (b,)."""
    if loss == "vanilla":
        return per_sample(ops.softplus(-logits))
    return per_sample(ops.square(logits - 1.0) if loss == "least_squares" else -logits)


class Adversarial(Objective):
    """The network's outputs shall equal the targets, and look true to a discriminator that is trained beside it.

    `vanilla`: cross-entropy, in the form that does not saturate (Goodfellow et al. 2014); `least_squares`: Mao et al. 2017, with
    0, 1 and 1; `hinge`: Lim and Ye 2017. The discriminator's loss is half the sum of its two parts (Isola et al. 2017, section 3.3).

    Args:
        network: (b, h, w, c) -> (b, h, w, c), output in float32.
        discriminator: (b, h, w, input and output channels together) -> (b, h', w', 1), logits in float32.
        loss: vanilla, least_squares or hinge.
        l1_weight: of the L1 distance to the target, beside the 1 of the adversarial loss.

    Raises:
        ValueError: an unknown loss.
    """

    def __init__(self, network: keras.Model, discriminator: keras.Model, loss: str = "vanilla", l1_weight: float = 100.0) -> None:
        super().__init__({"model": network, "discriminator": discriminator})
        if loss not in LOSSES:
            raise ValueError(f"objective.loss: received {loss!r}, known are {', '.join(LOSSES)}.")
        self.loss, self.l1_weight = loss, l1_weight

    def losses(self, call: Call, batch: Mapping[str, Tensor], noise: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        given, target = batch["input"], batch["target"]
        made = ops.cast(call("model", given), "float32")
        true, fake = (ops.cast(call("discriminator", ops.concatenate([given, of], axis=-1)), "float32") for of in (target, made))
        distance, fooling = l1(made, target), fooling_loss(fake, self.loss)
        total = fooling + self.l1_weight * distance
        judging = 0.5 * (real_loss(true, self.loss) + fake_loss(fake, self.loss))
        parts = {"loss": total, "l1": distance, "adversarial": fooling, "discriminator": judging}
        return {"model": total, "discriminator": judging}, parts
