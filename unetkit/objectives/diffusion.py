"""Diffusion: noise removed level by level, under EDM's preconditioning or with the targets eps, x0 and v."""

import keras

from unetkit.objectives.generative import Generative
from unetkit.objectives.processes import Discrete, Edm


class Diffusion(Generative):
    """Denoising diffusion (Ho et al. 2020; Karras et al. 2022).

    Args:
        network: see `Generative`.
        condition: none; image: the input of the pair; class: the image's class.
        condition_dropout: share of the training images whose condition is hidden, for guidance.
        prediction: edm (preconditioned, see `Edm`); or eps, x0 or v over `schedule` (see `Discrete`).
        schedule: of eps, x0 and v: cosine, linear or sigmoid.
        sigma_data, sigma_mean, sigma_spread, sigma_min, sigma_max, rho: of edm.
        weighting: none: the squared error of what is predicted; min_snr or soft_min_snr: see `clean_weight`.
        gamma: of the weighting (None: 5 for min_snr, 4 for soft_min_snr).
        sampler: heun, dpmpp_2m or ddim.
        sampler_steps: per picture.
        guidance: 1: none; above: further towards the condition.
        clip: whether the sampler's estimates of the image are clipped to [-1, 1].

    Raises:
        ValueError: an argument that does not fit.
    """

    def __init__(
        self,
        network: keras.Model,
        condition: str = "none",
        condition_dropout: float = 0.1,
        prediction: str = "edm",
        schedule: str = "cosine",
        sigma_data: float = 0.5,
        sigma_mean: float = -1.2,
        sigma_spread: float = 1.2,
        sigma_min: float = 0.002,
        sigma_max: float = 80.0,
        rho: float = 7.0,
        weighting: str = "soft_min_snr",
        gamma: float | None = None,
        sampler: str = "heun",
        sampler_steps: int = 18,
        guidance: float = 1.0,
        clip: bool = True,
    ) -> None:
        edm = prediction == "edm"
        super().__init__(
            network,
            Edm(sigma_data, sigma_mean, sigma_spread, sigma_min, sigma_max, rho) if edm else Discrete(prediction, schedule),
            condition=condition,
            condition_dropout=condition_dropout,
            weighting=weighting,
            gamma=gamma,
            sampler=sampler,
            steps=sampler_steps,
            guidance=guidance,
            clip=clip,
        )
