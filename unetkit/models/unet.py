"""The U-Net: assembly only. What a level, a block or a head computes is in `unetkit.blocks`."""

import dataclasses
from typing import Any

import keras

from unetkit.blocks import checks
from unetkit.blocks.activation import activation_function
from unetkit.blocks.conversion import Pack, Unpack
from unetkit.blocks.embedding import ClassEmbedding, TimeEmbedding
from unetkit.blocks.head import Head
from unetkit.blocks.level import Level
from unetkit.blocks.lookup import find_class, name_of, refuse_unloaded_code
from unetkit.blocks.modulated import ConditionedBlock
from unetkit.blocks.norm import make_norm
from unetkit.blocks.packing import Layout
from unetkit.errors import UserError
from unetkit.models.packing import convert, read_packing, resample
from unetkit.models.spec import LevelSpec, read_levels
from unetkit.shapes import AXES, check_halvable


@keras.saving.register_keras_serializable("unetkit")
class UNet(keras.Model):
    """A U-Net (Ronneberger et al. 2015) from one spec per level: an ordinary Keras model, (b, h, w, c) -> (b, h, w, output_channels).

    With an input shape of (width, channels) it is one-dimensional, for sound and other signals: (b, w, c) -> (b, w, output_channels).

    Weights are named by place, `down_0/block0/conv1/kernel`, `downsample_0/...`, `bottom/...`, `upsample_0/...`, `up_0/...`,
    `head/...`, with levels counted from the full resolution, so the names do not depend on the size of the image.

    With `time`, its inputs are a list: the image, the noise level (b,), and with `classes` the class (b,), whose embedding goes
    to every block; `classes` itself stands for "no class".

    ```python
    model = UNet((64, 64, 3), levels=(16, 32, {"channels": 64, "attention": True}))
    model.compile("adam", "mae")
    ```

    Args:
        input_shape: (height, width, channels), or (width, channels); every side must halve once per level but the last.
        output_channels: channels of the output (None: those of the input).
        levels: outermost first, the last one is the bottom: channels, or a mapping of `LevelSpec`'s fields.
        block: `conv`, `modulated` (for embeddings), `package.module:Class`, or a subclass of `unetkit.blocks.Block`.
        block_args: further arguments of your own block.
        blocks: blocks per level and side.
        kernel_size: odd side of the blocks' convolutions, in pixels.
        norm: none, batch, group, instance or layer.
        groups: channel groups of group norm (the largest divisor of the channels up to this).
        norm_first: convolution, norm, activation; False: convolution, activation, norm.
        activation: a Keras activation by name; the up-samplers have it too.
        negative_slope: slope of leaky_relu below zero (None: 0.2).
        residual: none, add or concat: what a block does with its input.
        dropout: rate between the convolutions of the bottom's blocks.
        down: max_pool or strided_conv, or a `Downsample` of your own.
        up: transposed_conv, nearest_conv or bilinear_conv, or an `Upsample` of your own.
        up_kernel_size: kernel of the up-sampler's convolution.
        heads: attention heads.
        output_activation: tanh or linear; the head is float32 under every policy.
        time: whether there is an input for the noise level. The blocks must take an embedding: `modulated`, or your own
            subclass of `unetkit.blocks.ConditionedBlock`.
        classes: number of classes (0: no such input).
        embedding_channels: channels of the embedding (None: four times the first level's).
        head_norm: norm and activation before the head, for blocks that end in a sum.
        zero_init: the head's kernel starts at zero.
        packing: pixels (rows, columns) that a level keeps together in the lanes of a TPU, outermost level first, as
            `((2, 4), (1, 2))`; levels left out are plain. The same network, weights and numbers, in another layout
            (docs/lane-packing.md). A level that a block does not divide stays plain, with a warning.
        name: name of the model.
        dtype: precision policy, as `mixed_bfloat16` (None: Keras' current one).

    Raises:
        UserError: an argument that does not fit, before any tensor exists.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        output_channels: int | None = None,
        levels: tuple = (32, 64, 128, 256),
        block: str | type = "conv",
        block_args: dict[str, Any] | None = None,
        blocks: int = 1,
        kernel_size: int = 3,
        norm: str = "group",
        groups: int = 8,
        norm_first: bool = True,
        activation: str = "silu",
        negative_slope: float | None = None,
        residual: str = "none",
        dropout: float = 0.0,
        down: str | type = "max_pool",
        up: str | type = "nearest_conv",
        up_kernel_size: int = 3,
        heads: int = 4,
        output_activation: str = "tanh",
        time: bool = False,
        classes: int = 0,
        embedding_channels: int | None = None,
        head_norm: bool = False,
        zero_init: bool = False,
        packing: tuple[tuple[int, ...], ...] = (),
        name: str = "unet",
        dtype=None,
    ):
        # --- Checks
        input_shape = read_input_shape(input_shape)
        specs = read_levels(levels)
        check_halvable(input_shape[:-1], len(specs) - 1, what="input_shape")
        if output_channels is not None:
            checks.count("UNet", "output_channels", output_channels)
        checks.count("UNet", "blocks", blocks)
        packs = read_packing(packing, input_shape, len(specs))
        checks.share("UNet", "dropout", dropout)
        block, down, up = find_class("block", block), find_class("down", down), find_class("up", up)
        embedded = time or classes > 0
        if embedded and not issubclass(block, ConditionedBlock):
            raise UserError(
                f"UNet: block={name_of('block', block)!r} takes no embedding, which a network with a noise level or classes has: use "
                "modulated, or a subclass of unetkit.blocks.ConditionedBlock."
            )
        width = embedding_channels or 4 * specs[0].channels
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
        rank = len(input_shape) - 1
        settings = {
            "kernel_size": kernel_size,
            "groups": groups,
            "norm_first": norm_first,
            "activation": activation,
            "negative_slope": negative_slope,
            "residual": residual,
            "rank": rank,
        }
        if issubclass(block, ConditionedBlock):
            settings["embedding_channels"] = width if embedded else None
        for argument in block_args or {}:
            if argument in settings or argument in ("channels", "norm", "dropout"):
                raise UserError(f"UNet: block_args: {argument} is set by the model's own {argument} or by its levels.")

        # --- Layers
        def level(place: str, spec: LevelSpec, dropout: float, layout: Layout | None) -> Level:
            norm_here = norm if spec.norm is None else spec.norm
            dropout = dropout if spec.dropout is None else spec.dropout
            return Level(
                spec.channels,
                blocks=blocks if spec.blocks is None else spec.blocks,
                block=block,
                block_args={**settings, "norm": norm_here, "dropout": dropout, **(block_args or {})},
                attention=spec.attention,
                attention_args={"heads": heads, "norm": norm_here, "groups": groups},
                layout=layout,
                name=place,
                dtype=policy,
            )

        *outer, bottom = specs
        sampler = {"rank": rank, "dtype": policy}
        up_args = {"kernel_size": up_kernel_size, "activation": activation, "negative_slope": negative_slope}

        # --- Functional model
        image = keras.Input(input_shape, name="image")
        inputs, embeddings = [image], []
        if time:
            inputs.append(keras.Input((), name="time"))
            embeddings.append(TimeEmbedding(width, name="embed_time")(inputs[-1]))
        if classes:
            inputs.append(keras.Input((), name="label"))
            embeddings.append(ClassEmbedding(classes, width, name="embed_class")(inputs[-1]))
        embedding = embeddings[:1] if len(embeddings) < 2 else [keras.layers.Add(name="embedding", dtype="float32")(embeddings)]
        skips = []
        x, layout = convert(image, None, packs[0], "image", policy)
        first = x
        for n, spec in enumerate(outer):
            here = level(f"down_{n}", spec, 0.0, layout)
            x = here(x, *embedding)
            skips.append((x, here.out_layout))
            x, layout = resample(down, x, here.out_layout, packs[n + 1], f"downsample_{n}", channels=spec.channels, **sampler)
        here = level("bottom", bottom, dropout, layout)
        x, layout = here(x, *embedding), here.out_layout
        for n, spec in reversed(list(enumerate(outer))):
            x, layout = resample(up, x, layout, packs[n], f"upsample_{n}", channels=spec.channels, **up_args, **sampler)
            skip, skip_layout = skips[n]
            x = keras.layers.Concatenate(name=f"join_{n}", dtype=policy)([skip, x])
            layout = layout and Layout(layout.block, skip_layout.parts + layout.parts)
            here = level(f"up_{n}", spec, 0.0, layout)
            x, layout = here(x, *embedding), here.out_layout
        if head_norm:
            x, layout = convert(x, layout, None, "before_head", policy)
            x = make_norm(norm, groups, name="head_norm", dtype=policy)(x)
            x = activation_function("UNet", activation, negative_slope)(x)
        head = {"activation": output_activation, "rank": rank, "zero_init": zero_init}
        output = Head(output_channels or input_shape[-1], **head, layout=layout, name="head")(x)
        inner = (first, output) if packs[0] and layout is not None and not embedded else None
        if layout is not None:
            output = Unpack(Layout(layout.block, (output_channels or input_shape[-1],)), name="unpack_image", dtype="float32")(output)
        super().__init__(inputs=inputs if embedded else image, outputs=output, name=name)

        self._inner = inner

        # --- Config
        self.dtype_policy = policy
        self.output_channels = output_channels
        self.levels = specs
        self.block = name_of("block", block)
        self.block_args = dict(block_args or {})
        self.blocks = blocks
        self.kernel_size = kernel_size
        self.norm = norm
        self.groups = groups
        self.norm_first = norm_first
        self.activation = activation
        self.negative_slope = negative_slope
        self.residual = residual
        self.dropout = dropout
        self.down = name_of("down", down)
        self.up = name_of("up", up)
        self.up_kernel_size = up_kernel_size
        self.heads = heads
        self.output_activation = output_activation
        self.time = time
        self.classes = classes
        self.embedding_channels = embedding_channels
        self.head_norm = head_norm
        self.zero_init = zero_init
        self.packing = tuple(tuple(block) for block in packing)

    def packed_view(self) -> tuple[keras.Model, Pack] | None:
        """The same network without its first and last step, and what packs an image for it; None where level 0 is plain.

        Where it does not matter which pixel lies where, as for a mean over pixels, input and target can both be packed and
        the output left so: (b, h/r, w/c, lanes) -> (b, h/r, w/c, lanes). Variables are shared, and in the same order.
        """
        if self._inner is None:
            return None
        first, output = self._inner
        return keras.Model(first, output, name=self.name), Pack(
            self.get_layer("down_0" if len(self.levels) > 1 else "bottom").layout.block, dtype="float32"
        )

    def get_config(self):
        return {
            "input_shape": tuple(self.inputs[0].shape[1:]),
            "output_channels": self.output_channels,
            "levels": [dataclasses.asdict(level) for level in self.levels],
            "block": self.block,
            "block_args": dict(self.block_args),
            "blocks": self.blocks,
            "kernel_size": self.kernel_size,
            "norm": self.norm,
            "groups": self.groups,
            "norm_first": self.norm_first,
            "activation": self.activation,
            "negative_slope": self.negative_slope,
            "residual": self.residual,
            "dropout": self.dropout,
            "down": self.down,
            "up": self.up,
            "up_kernel_size": self.up_kernel_size,
            "heads": self.heads,
            "output_activation": self.output_activation,
            "time": self.time,
            "classes": self.classes,
            "embedding_channels": self.embedding_channels,
            "head_norm": self.head_norm,
            "zero_init": self.zero_init,
            "packing": self.packing,
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        for kind in ("block", "down", "up"):
            refuse_unloaded_code(kind, config[kind])
        with keras.saving.custom_object_scope(custom_objects or {}):
            return cls(**config)


def read_input_shape(input_shape) -> tuple[int, ...]:
    """(height, width, channels) or (width, channels) as whole numbers.

    Raises:
        UserError: another number of axes, or an axis that is None or below 1.
    """
    try:
        sides = tuple(input_shape)
    except TypeError:
        sides = ()
    if len(sides) not in (2, 3):
        raise UserError(f"UNet: input_shape={input_shape!r} must be (height, width, channels) or (width, channels), without the batch.")
    axes = (*AXES, "channels")[-len(sides) :]
    if None in sides:
        raise UserError(
            f"UNet: input_shape={sides} must be numbers: a TPU program has one static shape. "
            "For another size build the network again; the names of its weights stay the same."
        )
    return tuple(checks.count("UNet", f"input_shape: {axis}", side) for axis, side in zip(axes, sides, strict=True))
