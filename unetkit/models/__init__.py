"""U-Nets as ordinary Keras models: `compile`, `fit`, `save` and `keras.models.load_model` work on them."""

from unetkit.models.initial import initialize
from unetkit.models.original import load_original_weights, original_unet
from unetkit.models.patchgan import patch_gan
from unetkit.models.spec import LevelSpec
from unetkit.models.unet import UNet

__all__ = ["LevelSpec", "UNet", "initialize", "load_original_weights", "original_unet", "patch_gan"]
