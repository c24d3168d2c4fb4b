"""The parts of tensorflow-addons that image models used, under their old names and with their old arguments, on Keras 3.

    from unetkit import addons as tfa

    tfa.layers.InstanceNormalization(); tfa.optimizers.LAMB(1e-3); tfa.image.rotate(images, 0.5)

They run on every Keras backend. `docs/from-tensorflow-addons.md` is the table from old to new.
"""

import keras  # noqa: F401  first, since its first import makes `keras_hook` import this room too

from unetkit.addons import image, layers, optimizers

__all__ = ["image", "layers", "optimizers"]
