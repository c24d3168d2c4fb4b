"""One side of one resolution."""

import dataclasses
from typing import Any

import keras

from unetkit.blocks import checks, packed
from unetkit.blocks.attention import SelfAttention
from unetkit.blocks.base import TracedLayer
from unetkit.blocks.lookup import accepted_arguments, find_class, name_of, refuse_unloaded_code
from unetkit.blocks.modulated import ConditionedBlock
from unetkit.blocks.packed import Packed
from unetkit.blocks.packing import Layout
from unetkit.errors import UserError


@keras.saving.register_keras_serializable("unetkit")
class Level(TracedLayer):
    """The blocks of one side of a level, `block0`, `block1`, ..., then self-attention where asked.

    Args:
        channels: channels of each block.
        blocks: number of blocks.
        block: `conv`, `package.module:Class`, or a subclass of `Block`.
        block_args: further arguments of each block.
        attention: whether self-attention follows.
        attention_args: arguments of `SelfAttention`.
        layout: how the input is packed; None for an image. Blocks that do not take packed maps, and attention, are given images.

    Call arguments:
        x: (b, h, w, c)
        embedding: (b, e), for blocks that are a `ConditionedBlock` with `embedding_channels` in `block_args`.

    Returns:
        (b, h, w, channels), more channels where the blocks concatenate.
    """

    def __init__(
        self,
        channels: int,
        blocks: int = 1,
        block: str | type = "conv",
        block_args: dict[str, Any] | None = None,
        attention: bool = False,
        attention_args: dict[str, Any] | None = None,
        layout: Layout | dict[str, Any] | None = None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.layout = Layout.read(layout)
        self.channels = checks.count("Level", "channels", channels)
        self.blocks = checks.count("Level", "blocks", blocks)
        block_class = find_class("block", block)
        self.block = name_of("block", block_class)
        self.block_args = dict(block_args or {})
        self.attention = attention
        self.attention_args = dict(attention_args or {})
        self.embedding_channels = self.block_args.get("embedding_channels")
        self.out_layout = self.layout
        self.stack = [self.make_block(block_class, f"block{number}") for number in range(self.blocks)]
        if self.attention:
            if self.layout is not None:
                self.out_layout = dataclasses.replace(self.out_layout, parts=(self.out_layout.channels,))
            self.stack.append(SelfAttention(**self.attention_args, name="attention", dtype=self.dtype_policy))

    def make_block(self, block_class: type, name: str):
        known = accepted_arguments(block_class)
        for argument in self.block_args:
            if argument not in known:
                raise UserError(
                    f"{self.block}: no argument {argument!r}.{checks.did_you_mean(argument, known)} "
                    "A block takes the model's settings as **settings and passes them to Block.__init__."
                )
        args = {"channels": self.channels, **self.block_args, "name": name, "dtype": self.dtype_policy}
        if self.layout is None:
            return block_class(**args)
        packs = block_class.packs()
        made = block_class(**args, **({"layout": self.out_layout} if packs else {}))
        parts = made.out_parts(self.out_layout.parts)
        self.out_layout = dataclasses.replace(self.layout, parts=parts if packs else (sum(parts),))
        return made

    def trace(self, input_shape) -> keras.KerasTensor:
        x = keras.KerasTensor(tuple(input_shape), dtype=self.compute_dtype)
        if self.embedding_channels is None:
            return self.call(x)
        return self.call(x, keras.KerasTensor((input_shape[0], self.embedding_channels), dtype=self.compute_dtype))

    def call(self, x, embedding=None, training=None):
        def run(layer, x):
            given = () if embedding is None or not isinstance(layer, ConditionedBlock) else (embedding,)
            return layer(x, *given, training=training)

        if self.layout is None:
            for layer in self.stack:
                x = run(layer, x)
            return x
        x = Packed(x, self.layout)
        for layer in self.stack:
            given = getattr(layer, "layout", None)
            if given is None:
                x = packed.pack(run(layer, packed.unpack(x)), self.layout.block)
            else:
                x = Packed(layer(x.array, training=training), dataclasses.replace(given, parts=layer.out_parts(given.parts)))
        return x.array

    def get_config(self):
        return super().get_config() | {
            "channels": self.channels,
            "blocks": self.blocks,
            "block": self.block,
            "block_args": dict(self.block_args),
            "attention": self.attention,
            "attention_args": dict(self.attention_args),
            "layout": None if self.layout is None else dataclasses.asdict(self.layout),
        }

    @classmethod
    def from_config(cls, config):
        refuse_unloaded_code("block", config["block"])
        return super().from_config(config)
