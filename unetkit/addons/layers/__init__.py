"""Layers of tensorflow-addons 0.23: normalization of activations and of kernels."""

from keras.layers import GroupNormalization

from unetkit.addons.layers.kernels import SpectralNormalization, WeightNormalization
from unetkit.addons.layers.normalization import TLU, FilterResponseNormalization, InstanceNormalization

__all__ = [
    "TLU",
    "FilterResponseNormalization",
    "GroupNormalization",
    "InstanceNormalization",
    "SpectralNormalization",
    "WeightNormalization",
]
