"""The discriminator of pix2pix: one answer for each patch of the image."""

import keras

from unetkit.blocks import checks
from unetkit.blocks.norm import NAMES as NORMS
from unetkit.blocks.norm import make_norm
from unetkit.errors import UserError

HALVINGS = {16: 1, 34: 2, 70: 3, 142: 4, 286: 5}
"""Receptive field in pixels -> convolutions with stride 2."""


def patch_gan(
    input_shape: tuple[int, int, int],
    receptive_field: int = 70,
    channels: int = 64,
    norm: str = "instance",
    groups: int = 8,
    spectral_norm: bool = False,
) -> keras.Model:
    """PatchGAN (Isola et al. 2017, appendix 6.1.2): 4x4 convolutions, leaky ReLU 0.2, a norm between but for the first.

    (b, h, w, c) -> (b, h', w', 1) logits, float32; each sees `receptive_field` pixels in both directions. Convolutions keep the
    size or halve it. Weights are drawn from N(0, 0.02^2).

    Args:
        input_shape: (height, width, channels).
        receptive_field: 16, 34, 70, 142 or 286.
        channels: of the first convolution; each further one with stride 2 has twice as many, up to eight times.
        norm: none, batch, group, instance, layer or filter_response.
        groups: of group norm.
        spectral_norm: divide each kernel by its largest singular value (Miyato et al. 2018).

    Raises:
        UserError: another receptive field, norm or number of channels.
    """
    if receptive_field not in HALVINGS:
        raise UserError(f"PatchGAN: receptive_field={receptive_field} is none of {', '.join(map(str, HALVINGS))} pixels.")
    checks.count("PatchGAN", "channels", channels)
    checks.choice("PatchGAN", "norm", norm, NORMS)

    def conv(x, filters: int, strides: int, name: str, **args):
        initial = keras.initializers.RandomNormal(stddev=0.02)
        layer = keras.layers.Conv2D(filters, 4, strides=strides, padding="same", kernel_initializer=initial, name=name, **args)
        return (keras.layers.SpectralNormalization(layer, name=f"{name}_spectral", **args) if spectral_norm else layer)(x)

    x = image = keras.Input(input_shape, name="image")
    halvings = HALVINGS[receptive_field]
    for n in range(halvings + 1):
        x = conv(x, channels * 2 ** min(n, 3), 2 if n < halvings else 1, f"conv{n}")
        if n:
            x = make_norm(norm, groups, name=f"norm{n}")(x)
        x = keras.layers.LeakyReLU(0.2, name=f"activation{n}")(x)
    return keras.Model(image, conv(x, 1, 1, "logits", dtype="float32"), name="discriminator")
