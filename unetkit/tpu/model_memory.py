"""What a training step keeps in memory, by rules: no compiler is asked.

The rules were read off what XLA:TPU kept alive at the peak of small U-Nets; `benchmarks/arithmetic_model.py` measures how
well they hold:

* Convolutions, matrix products, windows (pooling) and resizing leave an array in memory; everything else is fused into
  what reads it, forward and again backward. Max-pooling is not fused with what makes its input, so that is left too.
* A backward pass keeps the arrays from which it can compute what it needs: a convolution needs its input, a nonlinear
  operation its own input, max-pooling its input.
* An array that only convolutions read (through additions, concatenations, paddings) is kept in 16 bits, since the matrix
  unit takes 16-bit operands; else in the precision of the layer.
* The gradient of an operation's input lives until everything that made this input has had its backward pass: that of a
  joined skip connection until the encoder's turn comes.
* Batch and channels of an image lie in the tile, whichever way takes fewer bytes; a batch below 8 may give its place to a
  row of pixels.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from unetkit.tpu.answer import BufferKind
from unetkit.tpu.model_graph import Graph, Op
from unetkit.tpu.model_space import Interval, is_compact, place

PRODUCTS = frozenset({"Matmul", "Einsum", "Dot", "Tensordot"})
CONTRACTIONS = PRODUCTS | frozenset(
    {
        *("Dense", "EinsumDense", "Conv", "ConvTranspose", "DepthwiseConv", "SeparableConv"),
        *(f"{kind}Conv{rank}D{end}" for kind in ("", "Depthwise", "Separable") for rank in (1, 2, 3) for end in ("", "Transpose")),
    }
)
MAX_WINDOWS = frozenset({"MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "MaxPool"})
MEAN_WINDOWS = frozenset({"AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "AveragePool"})
RESIZES = frozenset({"UpSampling1D", "UpSampling2D", "UpSampling3D", "Resize", "Resizing"})
LINEAR = frozenset(
    {
        *("Add", "Subtract", "Average", "Negative", "Concatenate", "Stack", "Dropout", "SpatialDropout2D", "Cast"),
        *("Reshape", "Flatten", "Permute", "Transpose", "Swapaxes", "Moveaxis", "ExpandDims", "Squeeze"),
        *("GetItem", "Split", "Slice", "Repeat", "Tile", "BroadcastTo", "Pad", "Flip", "Roll", "Mean", "Sum"),
        *(f"{kind}{rank}D" for kind in ("ZeroPadding", "Cropping", "GlobalAveragePooling") for rank in (1, 2, 3)),
        *MEAN_WINDOWS,
        *RESIZES,
    }
)
"""Operations whose backward pass needs none of their values."""
NORMS = frozenset({"BatchNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization", "UnitNormalization", "Softmax"})
"""Fused, but with a sum over the array inside."""
JOINS = frozenset({"Concatenate", "Stack"})
MATERIAL = CONTRACTIONS | MAX_WINDOWS | MEAN_WINDOWS | RESIZES
"""Operations that leave an array in memory."""


@dataclass(frozen=True)
class _Origin:
    """What a tensor can be computed from without a new array: tensors in memory, and what stands between."""

    tensors: frozenset[int]
    linear: bool = True
    summed: bool = False
    """Whether a sum over the array (a norm's) stands between: a gradient then cannot pass on the fly."""
    joined: bool = False


@dataclass
class _Uses:
    """Where an array in memory is read."""

    forward: int
    backward: list[int] = field(default_factory=list)
    whole: bool = False
    """Whether something needs it in the layer's own precision, not only as an operand of the matrix unit."""
    fused: bool = False
    """Whether the convolution that makes it also sums it over batch and pixels, for a batch norm, and so settles its layout."""

    @property
    def free(self) -> bool:
        """Whether its layout may be another than a convolution's."""
        return self.whole and not self.fused


def intervals(graph: Graph, generation: str) -> list[Interval]:
    """The temporary buffers of one training step: activations kept, gradients, masks."""
    return list(_Step(graph, generation).buffers())


class _Step:
    """One walk over a graph."""

    def __init__(self, graph: Graph, generation: str) -> None:
        self.graph, self.generation, self.count = graph, generation, len(graph.ops)
        self.producer = {tensor: position for position, op in enumerate(graph.ops) for tensor in op.outputs}
        self.origins: dict[int, _Origin] = {tensor: _Origin(frozenset({tensor})) for tensor in graph.inputs}
        self.uses: dict[int, _Uses] = {tensor: _Uses(0) for tensor in graph.inputs}
        self.sums: set[int] = set()
        self.made_of: dict[int, frozenset[int]] = {}
        for position, op in enumerate(graph.ops):
            self._note(position, op)
        for tensor in graph.outputs:
            self._need(tensor, self.count - 1, whole=True)

    def backward(self, position: int) -> int:
        """When the backward pass of the operation at a forward position runs."""
        return 2 * self.count - 1 - position

    def _note(self, position: int, op: Op) -> None:
        """What the operation leaves in memory, and what its backward pass will need."""
        if op.kind in MAX_WINDOWS | JOINS:
            for tensor in op.inputs:
                self._leave(tensor, self.producer.get(tensor, 0))
        sources = [self.origins[tensor] for tensor in op.inputs]
        for source in sources:
            for tensor in source.tensors:
                self.uses[tensor].forward = position
                self.uses[tensor].fused |= op.kind == "BatchNormalization"
        kept = op.closed or op.kind in MATERIAL
        if not kept and is_small(self.graph, op):
            kept = True
            self.sums.update(op.outputs)
        if op.kind in CONTRACTIONS:
            for tensor in op.inputs:
                self._need(tensor, position, whole=not self.origins[tensor].linear)
        elif op.kind not in LINEAR or op.closed:
            for tensor in op.inputs:
                self._need(tensor, position, whole=True)
        made_of = frozenset().union(*(source.tensors for source in sources))
        for tensor in op.outputs:
            if kept:
                self._leave(tensor, position)
                self.made_of[tensor] = made_of
                if op.activation:
                    self._need(tensor, position, whole=True)
            else:
                self.origins[tensor] = _Origin(
                    made_of,
                    linear=op.kind in LINEAR and all(source.linear for source in sources),
                    summed=op.kind in NORMS or any(source.summed or source.tensors & self.sums for source in sources),
                    joined=op.kind in JOINS or any(source.joined for source in sources),
                )

    def _leave(self, tensor: int, position: int) -> None:
        if tensor not in self.uses:
            self.uses[tensor] = _Uses(position)
            self.made_of[tensor] = self.origins[tensor].tensors if tensor in self.origins else frozenset()
            self.origins[tensor] = _Origin(frozenset({tensor}))

    def _need(self, tensor: int, position: int, whole: bool) -> None:
        for source in self.origins[tensor].tensors:
            self.uses[source].backward.append(self.backward(position))
            self.uses[source].whole |= whole

    def buffers(self) -> Iterator[Interval]:
        kept = list(self._activations())
        yield from kept
        yield from self._operands({b.tensor for b in kept if is_compact(b.tiled)})
        yield from self._gradients()

    def _operands(self, compact: set[int]) -> Iterator[Interval]:
        """What convolutions read of arrays that lie in no layout of theirs: copies in 16 bits, kept like the arrays."""
        for position, op in enumerate(self.graph.ops):
            for tensor in op.inputs if op.kind in CONTRACTIONS else ():
                sources = self.origins[tensor].tensors
                if tensor not in sources and sources & compact:
                    made = self.producer[tensor]
                    yield self._interval("activation", self.graph.ops[made].layer, tensor, "bf16", made, self.backward(position))

    def _activations(self) -> Iterator[Interval]:
        for tensor, uses in self.uses.items():
            array, position = self.graph.tensors[tensor], self.producer.get(tensor, 0)
            if tensor in self.graph.inputs and (uses.whole or not uses.backward):
                continue  # the argument itself serves
            dtype = array.dtype if uses.whole or array.dtype != "f32" else "bf16"
            layer = self.graph.ops[position].layer if tensor in self.producer else "input"
            kept = self._interval("activation", layer, tensor, dtype, position, max([uses.forward, *uses.backward]), uses.free)
            if tensor in self.made_of and uses.backward:
                kept = dataclasses.replace(kept, made_of=self.made_of[tensor], pause=(uses.forward, min(uses.backward)))
            yield kept
        for position, op in enumerate(self.graph.ops):
            if op.drops:
                yield self._interval("activation", op.layer, op.outputs[0], "pred", position, self.backward(position))

    def _gradients(self) -> Iterator[Interval]:
        for tensor in self.graph.outputs:
            yield self._gradient(tensor, self.count, self.graph.ops[-1].layer)
        for position, op in enumerate(self.graph.ops):
            if op.closed or op.kind in MATERIAL:
                for tensor in dict.fromkeys(op.inputs):
                    if self.origins[tensor].tensors - set(self.graph.inputs):
                        gradient = self._gradient(tensor, self.backward(position), op.layer)
                        yield from [gradient] * (2 if self.origins[tensor].summed else 1)

    def _gradient(self, tensor: int, first: int, layer: str) -> Interval:
        """The gradient of a tensor that an operation reads."""
        array, origin = self.graph.tensors[tensor], self.origins[tensor]
        makers = [self.producer[source] for source in origin.tensors if source in self.producer]
        operand = not (origin.summed or origin.joined) and all(self.graph.ops[maker].kind in CONTRACTIONS for maker in makers)
        narrow = bool(makers) and all(self.graph.tensors[out].dtype == "bf16" for maker in makers for out in self.graph.ops[maker].outputs)
        dtype = "bf16" if array.dtype == "f32" and (operand or narrow) else array.dtype
        return self._interval("gradient", layer, tensor, dtype, first, max([first, *map(self.backward, makers)]))

    def _interval(self, kind: BufferKind, layer: str, tensor: int, dtype: str, first: int, last: int, free: bool = False) -> Interval:
        makers = {self.graph.ops[self.producer[source]].kind for source in self.origins[tensor].tensors if source in self.producer}
        tiled = place(dtype, self.graph.tensors[tensor].shape, not makers & PRODUCTS, free, self.generation)
        return Interval(kind=kind, layer=layer, tensor=tensor, tiled=tiled, first=first, last=last)


def is_small(graph: Graph, op: Op) -> bool:
    """Whether an operation leaves a sum that is much smaller than what it read: it is then kept, for it costs nothing."""
    sizes = [math.prod(graph.tensors[tensor].shape) for tensor in (*op.inputs, *op.outputs)]
    return bool(op.inputs) and 4 * sizes[-1] <= max(sizes)
