"""Rectified flow: straight paths from noise to images."""

import keras

from unetkit.objectives.generative import Generative
from unetkit.objectives.processes import Rectified


class Flow(Generative):
    """Rectified flow (Liu et al. 2022; Lipman et al. 2022): the network learns the velocity noise - image on the line between them.

    Args:
        network: see `Generative`.
        condition: none; image: the input of the pair; class: the image's class.
        condition_dropout: share of the training images whose condition is hidden, for guidance.
        time: distribution of the time in training, uniform or logit_normal.
        weighting: none: the velocity's squared error as it is; min_snr or soft_min_snr: see `clean_weight`.
        gamma: of the weighting (None: 5 for min_snr, 4 for soft_min_snr).
        sampler: euler, heun or dpmpp_2m.
        sampler_steps: per picture.
        guidance: 1: none; above: further towards the condition.
        clip: whether the sampler's estimates of the image are clipped to [-1, 1].

    Raises:
        ValueError: an argument that does not fit.
    """

    def __init__(
        self,
        network: keras.Model,
        condition: str = "image",
        condition_dropout: float = 0.1,
        time: str = "uniform",
        weighting: str = "none",
        gamma: float | None = None,
        sampler: str = "euler",
        sampler_steps: int = 20,
        guidance: float = 1.0,
        clip: bool = True,
    ) -> None:
        super().__init__(
            network,
            Rectified(time),
            condition=condition,
            condition_dropout=condition_dropout,
            weighting=weighting,
            gamma=gamma,
            sampler=sampler,
            steps=sampler_steps,
            guidance=guidance,
            clip=clip,
        )
