"""How far a network looks: its receptive field and total stride, read off its layers without running it.

Each tensor on the way has, per spatial axis, a step and a reach: element j depends on the pixels from step x j - low to
step x j + high of the input. A convolution, a pool and their kin change the three by the arithmetic below; what works on
each pixel by itself leaves them; a layer that is made of others is followed through its `call`; and whatever is left, as a
norm over all pixels or attention, is taken to look everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import keras

from unetkit.errors import UserError
from unetkit.inference.fixed import Receptive

A_STEP_INSIDE = "an operation outside of any layer"
"""Stands for an operation of `keras.ops` until the layer is known whose `call` it belongs to."""


@dataclass(frozen=True)
class Field:
    """What one element depends on, per spatial axis.

    Args:
        step: pixels of the input per element.
        low: pixels looked at before `step x j`, infinite where everything is.
        high: pixels looked at after it.
        everywhere: the layer that looks everywhere, and what it is; None: none does.
    """

    step: tuple[Fraction, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    everywhere: str | None = None


def receptive(model: keras.Model, tile: Sequence[int]) -> Receptive:
    """Receptive radius and total stride of a model from (b, *tile, c) to (b, *tile, any).

    Raises:
        UserError: the model takes or gives anything but one such array.
    """
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise UserError(f"{model.name} has {len(model.inputs)} inputs and {len(model.outputs)} outputs; tiles need one of each.")
    rank = len(tile)
    x = keras.KerasTensor((1, *tile, model.inputs[0].shape[-1]), dtype=model.inputs[0].dtype)
    whole = _Walk(tuple(tile))
    start = Field((Fraction(1),) * rank, (0.0,) * rank, (0.0,) * rank)
    found = whole.through(model.call(x), {id(x): start})
    if found is None or any(step != 1 for step in found.step):
        raise UserError(f"{model.name}: its output is not as large as its input; tiles of it would not fit together.")
    stride = math.lcm(*(int(step) for step in whole.steps))
    if found.everywhere:
        return Receptive(None, stride, found.everywhere)
    return Receptive(tuple(int(max(pair)) for pair in zip(found.low, found.high, strict=True)), stride)


class _Walk:
    """Follows symbolic tensors from the output back to where a field is known, and computes forwards from there."""

    def __init__(self, tile: tuple[int, ...]) -> None:
        self.tile, self.rank = tile, len(tile)
        self.steps: set[Fraction] = {Fraction(1)}
        self.alive: list[Any] = []  # ids are keys below, so no tensor may be freed and its id given to another

    def through(self, output: Any, known: dict[int, Field | None]) -> Field | None:
        """The field of `output`; None for what does not depend on the input."""
        waiting = [output]
        while waiting:
            tensor = waiting[-1]
            if id(tensor) in known:
                waiting.pop()
                continue
            self.alive.append(tensor)
            operation, number, _ = getattr(tensor, "_keras_history", (None, 0, 0))
            if operation is None or isinstance(operation, keras.layers.InputLayer):
                known[id(tensor)] = None
                continue
            arguments = operation._inbound_nodes[number].arguments
            missing = [source for source in arguments.keras_tensors if id(source) not in known]
            if missing:
                waiting += missing
                continue
            known[id(tensor)] = self.after(operation, arguments, tensor, [known[id(source)] for source in arguments.keras_tensors])
        return known[id(output)]

    def after(self, operation: Any, arguments: Any, output: Any, fields: list[Field | None]) -> Field | None:
        """The field of an operation's output."""
        own = [(tensor, field) for tensor, field in zip(arguments.keras_tensors, fields, strict=True) if field is not None]
        if not own:
            return None
        source = own[0][1]
        rule = next((rule for kinds, rule in RULES if isinstance(operation, kinds)), None)
        if rule:
            found = rule(operation, source)
        elif _is_pointwise(operation, arguments, self.rank):
            found = _union([field for _, field in own])
        else:
            found = self.inside(operation, own)
        if found is None:
            found = self.anything(operation, source, own[0][0], output)
        self.steps |= {step for step in found.step if step.denominator == 1}
        return found

    def inside(self, operation: Any, own: list[tuple[Any, Field]]) -> Field | None:
        """The field of a layer that is made of others; None where it cannot be followed."""
        if not isinstance(operation, keras.layers.Layer) or type(operation).__module__.startswith("keras.src.layers") or len(own) > 1:
            return None
        (tensor, field), *_ = own
        x = keras.KerasTensor(tensor.shape, dtype=tensor.dtype)
        try:
            y = operation.call(x)
        except Exception:  # a layer of the user's may do anything with a symbolic tensor; then it counts as unknown
            return None
        found = self.through(y, {id(x): field}) if isinstance(y, keras.KerasTensor) else None
        if found is not None and found.everywhere == A_STEP_INSIDE:
            return replace(found, everywhere=f"{operation.path} ({type(operation).__name__})")
        return found

    def anything(self, operation: Any, source: Field, before: Any, after: Any) -> Field:
        """What must be assumed of an operation without a rule: that it looks everywhere."""
        named = f"{operation.path} ({type(operation).__name__})" if isinstance(operation, keras.layers.Layer) else A_STEP_INSIDE
        everywhere = source.everywhere or named
        sides = zip(before.shape[1:-1], after.shape[1:-1], strict=False)
        steps = [step * Fraction(a, b) if a and b else step for step, (a, b) in zip(source.step, sides, strict=False)]
        step = tuple(steps) if len(steps) == self.rank else source.step
        return Field(step, (math.inf,) * self.rank, (math.inf,) * self.rank, everywhere)


def _union(fields: list[Field]) -> Field:
    """Of tensors that are combined pixel by pixel."""
    low = tuple(map(max, zip(*(field.low for field in fields), strict=True)))
    high = tuple(map(max, zip(*(field.high for field in fields), strict=True)))
    return Field(fields[0].step, low, high, next((field.everywhere for field in fields if field.everywhere), None))


def _each(value: Any, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value)


def _slide(source: Field, kernel: Any, strides: Any, padding: str, dilation: Any = 1) -> Field:
    """A window of `kernel` elements that moves by `strides`: element j sees the elements from strides x j - before on."""
    rank = len(source.step)
    step, low, high = [], [], []
    for axis, (size, stride, spread) in enumerate(zip(_each(kernel, rank), _each(strides, rank), _each(dilation, rank), strict=True)):
        size = spread * (size - 1) + 1
        before = max(size - stride, 0) // 2 if padding == "same" else size - 1 if padding == "causal" else 0
        step.append(source.step[axis] * stride)
        low.append(source.low[axis] + float(source.step[axis] * before))
        high.append(source.high[axis] + float(source.step[axis] * (size - 1 - before)))
    return replace(source, step=tuple(step), low=tuple(low), high=tuple(high))


def _conv(layer: Any, source: Field) -> Field:
    return _slide(source, layer.kernel_size, layer.strides, layer.padding, layer.dilation_rate)


def _pool(layer: Any, source: Field) -> Field:
    return _slide(source, layer.pool_size, layer.strides, layer.padding)


def _transposed(layer: Any, source: Field) -> Field:
    """Element j takes part in what the elements from (j + before - kernel + 1) / stride to (j + before) / stride spread out."""
    rank = len(source.step)
    step, low, high = [], [], []
    for axis, (size, stride) in enumerate(zip(_each(layer.kernel_size, rank), _each(layer.strides, rank), strict=True)):
        before = max(size - stride, 0) // 2 if layer.padding == "same" else 0
        step.append(source.step[axis] / stride)
        low.append(source.low[axis] + float(step[axis] * (size - 1 - before)))
        high.append(source.high[axis] + float(step[axis] * before))
    return replace(source, step=tuple(step), low=tuple(low), high=tuple(high))


def _repeated(layer: Any, source: Field) -> Field:
    """Element j is made from element j / size, and with interpolation from its neighbours too."""
    smooth = getattr(layer, "interpolation", "nearest") != "nearest"
    step = tuple(s / size for s, size in zip(source.step, _each(layer.size, len(source.step)), strict=True))
    more = [float(s) * 2 if smooth else 0.0 for s in source.step]
    low = tuple(a + float(s - t) + m for a, s, t, m in zip(source.low, source.step, step, more, strict=True))
    return replace(source, step=step, low=low, high=tuple(a + m for a, m in zip(source.high, more, strict=True)))


def _shifted(sign: int) -> Callable[[Any, Field], Field]:
    """Padding in front moves every element on, cropping moves it back."""

    def rule(layer: Any, source: Field) -> Field:
        amount = layer.padding if sign > 0 else layer.cropping
        first = [pair[0] if isinstance(pair, (tuple, list)) else pair for pair in (amount if len(source.step) > 1 else (amount,))]
        moved = [float(sign * s * n) for s, n in zip(source.step, first, strict=True)]
        low = tuple(a + m for a, m in zip(source.low, moved, strict=True))
        return replace(source, low=low, high=tuple(a - m for a, m in zip(source.high, moved, strict=True)))

    return rule


def _kinds(*names: str) -> tuple[type, ...]:
    return tuple(getattr(keras.layers, f"{name}{rank}D") for name in names for rank in (1, 2))


RULES: tuple[tuple[tuple[type, ...], Callable[[Any, Field], Field]], ...] = (
    ((keras.layers.Conv1DTranspose, keras.layers.Conv2DTranspose), _transposed),
    (_kinds("Conv", "SeparableConv", "DepthwiseConv"), _conv),
    (_kinds("MaxPooling", "AveragePooling"), _pool),
    (_kinds("UpSampling"), _repeated),
    (_kinds("ZeroPadding"), _shifted(1)),
    (_kinds("Cropping"), _shifted(-1)),
)

LAYERS = frozenset(
    (
        "Activation", "ReLU", "LeakyReLU", "ELU", "Softmax", "PReLU", "Dropout", "SpatialDropout1D", "SpatialDropout2D",
        "AlphaDropout", "GaussianDropout", "GaussianNoise", "Dense", "Identity", "BatchNormalization", "Rescaling", "Add",
        "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "LayerNormalization", "RMSNormalization",
        "UnitNormalization",
    )
)  # fmt: skip
OPS = frozenset(
    (
        "Abs", "Absolute", "Add", "Arctan2", "Cast", "Celu", "Clip", "Concatenate", "ConvertToTensor", "Cos", "Divide", "Elu",
        "Exp", "Expm1", "Gelu", "HardShrink", "HardSigmoid", "HardSilu", "HardTanh", "LeakyRelu", "Log", "Log1p", "LogSigmoid",
        "LogSoftmax", "Maximum", "Minimum", "Mish", "Multiply", "Negative", "Power", "ReLU", "Reciprocal", "Relu", "Relu6", "Rsqrt",
        "Selu", "Sigmoid", "Sign", "Silu", "Sin", "SoftShrink", "Softmax", "Softplus", "Softsign", "SparsePlus", "SparseSigmoid",
        "Sqrt", "Square", "Squareplus", "Subtract", "Tanh", "TanhShrink", "TrueDivide", "Where",
    )
)  # fmt: skip


def _is_pointwise(operation: Any, arguments: Any, rank: int) -> bool:
    """Whether each pixel of the output is made from the same pixel of the inputs alone."""
    kind, module = type(operation).__name__, type(operation).__module__
    if not module.startswith("keras.src.") or kind not in (LAYERS if isinstance(operation, keras.layers.Layer) else OPS):
        return False
    if any(len(tensor.shape) != rank + 2 for tensor in arguments.keras_tensors):
        return False
    axis = getattr(operation, "axis", -1)
    return all(number in (-1, rank + 1) for number in (axis if isinstance(axis, (tuple, list)) else (axis,)))
