"""The section `objective` of the recipe: every kind, its keys, their defaults and bounds. See `schema.py` for the conventions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from unetkit.recipe.declare import key, section
from unetkit.recipe.model_schema import Norm


@dataclass(frozen=True, kw_only=True)
class Translation:
    """Paired translation: the network's output shall equal the target."""

    kind: Literal["translation"] = "translation"
    loss: Literal["l1", "l2", "charbonnier", "psnr", "ssim_l1"] = key(
        "l1", "pixel loss; psnr: minus each image's PSNR in dB; ssim_l1: a mix of 1 - SSIM and L1"
    )
    ssim_share: float = key(0.84, "weight of 1 - SSIM in ssim_l1; L1 has the rest", least=0.0, most=1.0)
    epsilon: float = key(1e-3, "charbonnier: sqrt(d^2 + epsilon^2)", above=0.0)


@dataclass(frozen=True, kw_only=True)
class PatchGan:
    """The discriminator of `adversarial`: one answer per patch of input and output together."""

    receptive_field: Literal[16, 34, 70, 142, 286] = key(70, "side of the patch that one answer sees, in pixels")
    channels: int = key(64, "channels of the first convolution; doubled with each halving, up to eight times", least=1)
    norm: Norm = key("instance", "normalisation")
    groups: int = key(8, "channel groups of group norm (the largest divisor of the channels up to this)", least=1)
    spectral_norm: bool = key(False, "divide each kernel by its largest singular value")
    rate_share: float = key(1.0, "its learning rate over that of the optimizer section", above=0.0)


@dataclass(frozen=True, kw_only=True)
class Adversarial:
    """pix2pix: the output shall equal the target, and look true to a discriminator that is trained beside it."""

    kind: Literal["adversarial"] = "adversarial"
    loss: Literal["vanilla", "least_squares", "hinge"] = key("vanilla", "of the discriminator and of the network that it judges")
    l1_weight: float = key(100.0, "of the L1 distance to the target, beside the 1 of the adversarial loss", least=0.0)
    discriminator: PatchGan = section(PatchGan)


Condition = Literal["none", "image", "class"]
Weighting = Literal["none", "min_snr", "soft_min_snr"]


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Rectified flow: images from noise along straight paths."""

    kind: Literal["flow"] = "flow"
    condition: Condition = key("image", "what decides the picture: the pair's input image, its class (data.classes), or nothing: none")
    condition_dropout: float = key(0.1, "share of the training images whose condition is hidden, for guidance", least=0.0, below=1.0)
    time: Literal["uniform", "logit_normal"] = key("uniform", "distribution of the time in training")
    weighting: Weighting = key("none", "of the error by signal-to-noise ratio; none: the velocity's error as it is")
    gamma: float | None = key(None, "of the weighting (null: 5 for min_snr, 4 for soft_min_snr)", above=0.0)
    sampler: Literal["euler", "heun", "dpmpp_2m"] = key("euler", "how pictures are made; heun calls the network twice per step")
    sampler_steps: int = key(20, "steps per picture", least=1, most=1000)
    guidance: float = key(1.0, "1: none; above: further towards the condition", least=0.0)
    clip: bool = key(True, "the sampler clips its estimates of the image to [-1, 1]")


@dataclass(frozen=True, kw_only=True)
class Diffusion:
    """Denoising diffusion: images from noise, level by level."""

    kind: Literal["diffusion"] = "diffusion"
    condition: Condition = key("none", "what decides the picture: the pair's input image, its class (data.classes), or nothing: none")
    condition_dropout: float = key(0.1, "share of the training images whose condition is hidden, for guidance", least=0.0, below=1.0)
    prediction: Literal["edm", "eps", "x0", "v"] = key(
        "edm", "what the network predicts: under EDM's preconditioning, or noise, image or v"
    )
    schedule: Literal["cosine", "linear", "sigmoid"] = key("cosine", "noise levels of eps, x0 and v")
    sigma_data: float = key(0.5, "edm: standard deviation of the images", above=0.0)
    sigma_mean: float = key(-1.2, "edm: mean of ln sigma in training")
    sigma_spread: float = key(1.2, "edm: standard deviation of ln sigma in training", above=0.0)
    sigma_min: float = key(0.002, "edm: the sampler's least noise", above=0.0)
    sigma_max: float = key(80.0, "edm: the sampler's most noise", above=0.0)
    rho: float = key(7.0, "edm: how much the sampler's steps crowd at little noise", least=1.0)
    weighting: Weighting = key("soft_min_snr", "of the error by signal-to-noise ratio; none: the error of what is predicted")
    gamma: float | None = key(None, "of the weighting (null: 5 for min_snr, 4 for soft_min_snr)", above=0.0)
    sampler: Literal["heun", "dpmpp_2m", "ddim"] = key("heun", "how pictures are made; heun calls the network twice per step")
    sampler_steps: int = key(18, "steps per picture", least=1, most=1000)
    guidance: float = key(1.0, "1: none; above: further towards the condition", least=0.0)
    clip: bool = key(True, "the sampler clips its estimates of the image to [-1, 1]")
