"""Blocks that follow an embedding: the abstract one, and the residual block of diffusion models."""

import keras
from keras import ops

from unetkit.blocks import checks
from unetkit.blocks.base import Block
from unetkit.blocks.norm import centres_each_channel
from unetkit.blocks.remat import recomputed
from unetkit.errors import UserError


class ConditionedBlock(Block):
    """Abstract: a `Block` whose `transform(x, training, embedding)` also gets the network's embedding, (b, e), or None without one.

    Args:
        channels, **settings: as of `Block`.
        embedding_channels: e, of networks that have an embedding; None: there is none.

    Call arguments:
        x: (b, h, w, c)
        embedding: (b, e)

    Returns:
        As `Block`.
    """

    def __init__(self, channels: int, embedding_channels: int | None = None, **settings):
        super().__init__(channels, **settings)
        owner = type(self).__name__
        self.embedding_channels = None if embedding_channels is None else checks.count(owner, "embedding_channels", embedding_channels)

    @classmethod
    def packs(cls) -> bool:
        return False

    def transform(self, x, training, embedding=None):
        """(b, h, w, c), (b, e) -> (b, h, w, channels)"""
        raise NotImplementedError(f"{type(self).__name__} must define transform(self, x, training, embedding=None)")

    def call(self, x, embedding=None, training=None):
        if self.remat and training and not isinstance(x, keras.KerasTensor):
            return recomputed(self, (x,) if embedding is None else (x, embedding), training)
        if embedding is None and self.embedding_channels is not None and not isinstance(x, keras.KerasTensor):
            raise UserError(f"{self.path}: needs the embedding, (b, {self.embedding_channels}), as its second input.")
        return self.on_image(x, training, embedding=embedding)

    def on_image(self, x, training, embedding=None):
        if embedding is None and self.embedding_channels is not None:  # x is symbolic: the layer is being built by its image alone
            embedding = keras.KerasTensor((x.shape[0], self.embedding_channels), dtype=self.compute_dtype)
        return super().on_image(x, training, embedding=embedding)

    def get_config(self):
        return super().get_config() | {"embedding_channels": self.embedding_channels}


@keras.saving.register_keras_serializable("unetkit")
class ModulatedBlock(ConditionedBlock):
    """Norm, activation, convolution, twice; the second norm's result is scaled and shifted by the embedding.

    The block of Dhariwal and Nichol 2021 ("Diffusion Models Beat GANs", section 3: adaptive group normalisation), y = (1 + s) norm(h)
    + t with (s, t) a dense layer of the embedding. With `residual="add"`, which it is meant for, its last convolution starts at
    zero, so that a network starts as the identity of its shortcuts. Arguments as `ConditionedBlock`.

    ```python
    block = ModulatedBlock(32, embedding_channels=64, residual="add")
    y = block(keras.ops.ones((1, 16, 16, 3)), keras.ops.ones((1, 64)))  # (1, 16, 16, 32)
    ```
    """

    def __init__(self, channels: int, embedding_channels: int | None = None, **settings):
        super().__init__(channels, embedding_channels, **settings)
        conv = {"padding": "same", "dtype": self.dtype_policy}
        self.norm1 = self.make_norm("norm1")
        use_bias = not (self.norm_first and centres_each_channel(self.norm, self.groups, self.channels))
        self.conv1 = self.of_rank.conv(self.channels, self.kernel_size, use_bias=use_bias, name="conv1", **conv)
        self.norm2 = self.make_norm("norm2")
        if self.embedding_channels is not None:
            self.scale_shift = keras.layers.Dense(2 * self.channels, name="scale_shift", dtype=self.dtype_policy)
        self.drop = self.make_dropout("drop")
        last = "zeros" if self.residual == "add" else "glorot_uniform"
        self.conv2 = self.of_rank.conv(self.channels, self.kernel_size, kernel_initializer=last, name="conv2", **conv)

    def transform(self, x, training, embedding=None):
        h = self.conv1(self.finish(x, self.norm1))
        h = self.finish(h, lambda h: self.modulate(self.norm2(h), embedding))
        return self.conv2(self.drop(h, training=training))

    def modulate(self, h, embedding):
        """(b, h, w, c), (b, e) -> (b, h, w, c)"""
        if embedding is None:
            return h
        both = self.scale_shift(self.activate(ops.cast(embedding, self.compute_dtype)))
        both = ops.reshape(both, (-1, *([1] * self.rank), 2 * self.channels))
        scale, shift = ops.split(both, 2, axis=-1)
        return h * (1.0 + scale) + shift
