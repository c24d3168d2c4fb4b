"""The contracts that blocks, down- and up-samplers keep. Each is an abstract layer of which a subclass fills one small method."""

import dataclasses

import keras
from keras import ops

from unetkit.blocks import checks, packed
from unetkit.blocks.activation import activation_function
from unetkit.blocks.norm import NAMES as NORMS
from unetkit.blocks.norm import make_norm
from unetkit.blocks.packed import Packed
from unetkit.blocks.packed_norm import normalize
from unetkit.blocks.packing import Layout
from unetkit.blocks.rank import LAYERS, Layers, check_rank
from unetkit.blocks.remat import recomputed
from unetkit.errors import UserError

RESIDUALS = ("none", "add", "concat")


class TracedLayer(keras.layers.Layer):
    """Abstract: a layer of one array that builds its sublayers, and learns its output's shape, by running `call` on a symbolic one.

    A subclass makes its sublayers in `__init__`, names each of them, and uses them in `call`; it needs neither `build` nor
    `compute_output_shape`. What `call` does beyond sublayers it does with `keras.ops`.
    """

    rank = 2

    @property
    def of_rank(self) -> Layers:
        """Keras' layers of this layer's rank: `self.of_rank.conv` is Conv2D for images and Conv1D for signals."""
        return LAYERS[self.rank]

    def build(self, input_shape):
        self.trace(input_shape)

    def compute_output_shape(self, input_shape):
        if not self.built:
            self.build(input_shape)  # in this layer's name scope, so that the sublayers' weights get their full names
        return self.trace(input_shape).shape

    def trace(self, input_shape) -> keras.KerasTensor:
        return self.call(keras.KerasTensor(tuple(input_shape), dtype=self.compute_dtype))

    def pixels(self, x) -> tuple[int, ...]:
        """Height and width of x, or the width of a signal; they must be known: a TPU program has one static shape."""
        if None in x.shape[1:]:
            raise UserError(f"{self.path}: needs known sides and a known number of channels, but was given {tuple(x.shape)}.")
        return tuple(x.shape[1:-1])

    def expect(self, method: str, x, y, shape: tuple) -> None:
        """Refuses a result of the subclass's method that breaks the contract of its base."""
        if tuple(y.shape) != shape:
            raise UserError(f"{type(self).__name__}.{method}: turned {tuple(x.shape)} into {tuple(y.shape)}, but must return {shape}.")


class PackableLayer(TracedLayer):
    """Abstract: a layer that works on images, and on packed maps if its class says so (see `docs/lane-packing.md`).

    A class says so by defining `packed_method` itself: a subclass that changes what the layer computes does not inherit the
    packed way of computing something else. A layer that does not say so is never given a `layout`.

    Args:
        layout: how the input is packed; None for an image.
    """

    packed_method = ""

    def __init__(self, layout: Layout | dict | None = None, **kwargs):
        super().__init__(**kwargs)
        if layout is not None and not self.packs():
            raise UserError(f"{type(self).__name__}: layout={layout}: define {self.packed_method} in the class itself to take packed maps.")
        self.layout = Layout.read(layout)

    @classmethod
    def packs(cls) -> bool:
        """Whether this very class takes packed maps."""
        return cls.packed_method in vars(cls)

    def build(self, input_shape):
        if self.layout is not None:  # the weights are those that an image makes
            input_shape = (input_shape[0], *self.layout.image(input_shape[1:-1]), self.layout.channels)
        self.build_for_image(input_shape)

    def build_for_image(self, input_shape):
        self.on_image(keras.KerasTensor(tuple(input_shape), dtype=self.compute_dtype), None)

    def call(self, x, training=None):
        if self.layout is None:
            return self.on_image(x, training)
        return self.on_packed(Packed(x, self.layout), training).array

    def on_image(self, x, training):
        """(b, h, w, c) -> (b, ..., any)"""
        raise NotImplementedError

    def on_packed(self, x: Packed, training) -> Packed:
        """`on_image` for a packed map."""
        raise NotImplementedError

    def get_config(self):
        return super().get_config() | {"layout": None if self.layout is None else dataclasses.asdict(self.layout)}


class Block(PackableLayer):
    """Abstract: one block of a level. The subclass fills `transform`; what happens to the block's input is settled here.

    The model hands every setting below to every block, so a subclass takes what it does not use itself as `**settings` and
    passes it on. `self.make_norm(name)`, `self.make_dropout(name)`, `self.activate(x)` and `self.finish(x, norm)` follow them.

    Args:
        channels: channels that `transform` returns.
        kernel_size: odd side of the block's convolutions, in pixels.
        norm: none, batch, group, instance or layer.
        groups: channel groups of group norm (the largest divisor of the channels up to this).
        norm_first: norm, then activation; False: activation, then norm.
        activation: a Keras activation by name.
        negative_slope: slope of leaky_relu below zero (None: 0.2).
        residual: none; `add` the input to the result (through a 1x1 convolution where the channels differ); or `concat` it in front.
        dropout: rate of `make_dropout`.
        rank: spatial axes: 2 for images, 1 for signals (b, w, c). `self.of_rank` has Keras' layers of it.

    Call arguments:
        x: (b, h, w, c)

    Returns:
        (b, h, w, channels), or (b, h, w, c + channels) with `residual="concat"`.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: int = 3,
        norm: str = "group",
        groups: int = 8,
        norm_first: bool = True,
        activation: str = "silu",
        negative_slope: float | None = None,
        residual: str = "none",
        dropout: float = 0.0,
        rank: int = 2,
        **kwargs,
    ):
        super().__init__(**kwargs)
        owner = type(self).__name__
        self.rank = check_rank(owner, rank)
        self.channels = checks.count(owner, "channels", channels)
        self.kernel_size = checks.odd(owner, "kernel_size", kernel_size)
        self.norm = checks.choice(owner, "norm", norm, NORMS)
        self.groups = checks.count(owner, "groups", groups)
        self.norm_first = norm_first
        self.activation = activation
        self.negative_slope = negative_slope
        self.residual = checks.choice(owner, "residual", residual, RESIDUALS)
        self.dropout = checks.share(owner, "dropout", dropout)
        self.activate = activation_function(owner, activation, negative_slope)

    packed_method = "transform_packed"

    def transform(self, x, training):
        """(b, h, w, c) -> (b, h, w, channels). Sublayers get `training` from Keras even where it is not passed on."""
        raise NotImplementedError(f"{type(self).__name__} must define transform(self, x, training)")

    def make_norm(self, name: str) -> keras.layers.Layer:
        """A layer of the norm asked for; with `norm="none"` it returns its input."""
        return make_norm(self.norm, self.groups, name=name, dtype=self.dtype_policy)

    def make_dropout(self, name: str) -> keras.layers.Dropout:
        """A dropout layer; with rate 0 it returns its input."""
        return keras.layers.Dropout(self.dropout, name=name, dtype=self.dtype_policy)

    def finish(self, x, norm):
        """Norm and activation in the order asked for."""
        return self.activate(norm(x)) if self.norm_first else norm(self.activate(x))

    def finish_packed(self, x: Packed, norm, training) -> Packed:
        """`finish` for a packed map."""
        if self.norm_first:
            return packed.activate(self.activate, self.activation, normalize(norm, x, training))
        return normalize(norm, packed.activate(self.activate, self.activation, x), training)

    def build_for_image(self, input_shape):
        self.shortcut = keras.layers.Identity(name="shortcut", dtype=self.dtype_policy)
        if self.residual == "add" and input_shape[-1] != self.channels:
            self.shortcut = self.of_rank.conv(self.channels, 1, name="shortcut", dtype=self.dtype_policy)
        super().build_for_image(input_shape)

    remat = False
    """Whether training keeps the block's input alone and computes the rest again; `blocks.rematerialize` sets it."""

    def call(self, x, training=None):
        if self.remat and training and not isinstance(x, keras.KerasTensor):
            return recomputed(self, (x,), training)
        return super().call(x, training)

    def on_image(self, x, training, **given):
        y = self.transform(x, training, **given)
        self.expect("transform", x, y, (*x.shape[:-1], self.channels))
        if self.residual == "add":
            return self.shortcut(x) + y
        if self.residual == "concat":
            return ops.concatenate([x, y], axis=-1)
        return y

    def on_packed(self, x: Packed, training) -> Packed:
        y = self.transform_packed(x, training)
        if self.residual == "add":
            return packed.add(x if isinstance(self.shortcut, keras.layers.Identity) else packed.convolve(self.shortcut, x), y)
        if self.residual == "concat":
            return packed.join(x, y)
        return y

    def out_parts(self, parts: tuple[int, ...]) -> tuple[int, ...]:
        """Channels of the maps that the result joins, for an input that joins `parts`."""
        return (*parts, self.channels) if self.residual == "concat" else (self.channels,)

    def get_config(self):
        return super().get_config() | {
            "channels": self.channels,
            "kernel_size": self.kernel_size,
            "norm": self.norm,
            "groups": self.groups,
            "norm_first": self.norm_first,
            "activation": self.activation,
            "negative_slope": self.negative_slope,
            "residual": self.residual,
            "dropout": self.dropout,
            "rank": self.rank,
        }


class Downsample(PackableLayer):
    """Abstract: halves height and width. The subclass fills `shrink`.

    Args:
        channels: channels of the level above; a subclass may return any number.
        rank: spatial axes: 2 for images, 1 for signals (b, w, c).
        out_block: block in which the result is packed, if the input is.

    Call arguments:
        x: (b, h, w, c), h and w even

    Returns:
        (b, h/2, w/2, any)
    """

    packed_method = "shrink_packed"

    def __init__(self, channels: int, rank: int = 2, out_block: tuple[int, ...] | None = None, **kwargs):
        super().__init__(**kwargs)
        self.channels = checks.count(type(self).__name__, "channels", channels)
        self.rank = check_rank(type(self).__name__, rank)
        self.out_block = None if out_block is None else tuple(out_block)

    def shrink(self, x):
        """(b, h, w, c) -> (b, h/2, w/2, any)"""
        raise NotImplementedError(f"{type(self).__name__} must define shrink(self, x)")

    def on_image(self, x, training):
        pixels = self.pixels(x)
        if any(side % 2 for side in pixels):
            raise UserError(f"{self.path}: {pixels} pixels do not halve: doubled again, they would not meet the skip connection.")
        y = self.shrink(x)
        self.expect("shrink", x, y, (x.shape[0], *(side // 2 for side in pixels), y.shape[-1]))
        return y

    def on_packed(self, x: Packed, training) -> Packed:
        return packed.reblock(self.shrink_packed(x), self.out_block)

    def out_parts(self, parts: tuple[int, ...], channels: int) -> tuple[int, ...]:
        """Channels of the maps that the result of so many channels joins, for an input that joins `parts`."""
        return (channels,)

    def get_config(self):
        return super().get_config() | {"channels": self.channels, "rank": self.rank, "out_block": self.out_block}


class Upsample(PackableLayer):
    """Abstract: doubles height and width, then applies the activation. The subclass fills `resize`.

    Args:
        channels: channels of the level above, which `resize` returns.
        kernel_size: side of the convolution, in pixels.
        activation: a Keras activation by name.
        negative_slope: slope of leaky_relu below zero (None: 0.2).
        rank: spatial axes: 2 for images, 1 for signals (b, w, c).
        out_block: block in which the result is packed, if the input is.

    Call arguments:
        x: (b, h, w, c)

    Returns:
        (b, 2h, 2w, channels)
    """

    packed_method = "resize_packed"

    def __init__(
        self,
        channels: int,
        kernel_size: int = 3,
        activation: str = "silu",
        negative_slope: float | None = None,
        rank: int = 2,
        out_block: tuple[int, ...] | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        owner = type(self).__name__
        self.rank = check_rank(owner, rank)
        self.channels = checks.count(owner, "channels", channels)
        self.kernel_size = checks.count(owner, "kernel_size", kernel_size)
        self.activation = activation
        self.negative_slope = negative_slope
        self.activate = activation_function(owner, activation, negative_slope)
        self.out_block = None if out_block is None else tuple(out_block)

    def resize(self, x):
        """(b, h, w, c) -> (b, 2h, 2w, channels)"""
        raise NotImplementedError(f"{type(self).__name__} must define resize(self, x)")

    def on_image(self, x, training):
        y = self.resize(x)
        self.expect("resize", x, y, (x.shape[0], *(2 * side for side in self.pixels(x)), self.channels))
        return self.activate(y)

    def activate_packed(self, x: Packed) -> Packed:
        return packed.activate(self.activate, self.activation, x)

    def on_packed(self, x: Packed, training) -> Packed:
        """`resize_packed(x)` itself applies the activation, and returns a map in `out_block`: it knows when that costs least."""
        return self.resize_packed(x)

    def get_config(self):
        return super().get_config() | {
            "channels": self.channels,
            "kernel_size": self.kernel_size,
            "activation": self.activation,
            "negative_slope": self.negative_slope,
            "rank": self.rank,
            "out_block": self.out_block,
        }
