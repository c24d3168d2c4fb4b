"""A Keras model as a list of elementary operations with static shapes, traced symbolically: nothing is computed.

A layer of Keras' own is one operation. A model, a layer of the user's or of ours is opened: its `call` is run on symbolic
tensors, and the layers and `keras.ops` it uses are read from the history Keras keeps of them. A `call` that cannot run on
symbolic tensors (one written with TensorFlow's or JAX's own functions) stays closed, as one operation.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras

DTYPES = {
    "float32": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "float64": "f64",
    "int32": "s32",
    "int64": "s64",
    "int8": "s8",
    "uint8": "u8",
    "bool": "pred",
}
_OPENED = ("MultiHeadAttention",)
"""Layers of Keras' own that are made of others."""


@dataclass(frozen=True)
class Array:
    """A tensor of the graph: its static shape and XLA's item type."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Op:
    """One elementary operation.

    Attributes:
        kind: name of the layer's or operation's class, as `Conv2D`, `Relu`, `Add`.
        layer: path of the layer it is, or that it is in, as `down_0/block0/conv1`.
        inputs, outputs: indices into the graph's tensors.
        kernel: shape of its trainable kernel; None without one.
        activation: name of the activation it ends with; None for a linear one.
        drops: whether it is a dropout with a rate above 0.
        closed: whether its `call` could not be opened.
    """

    kind: str
    layer: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    kernel: tuple[int, ...] | None = None
    activation: str | None = None
    drops: bool = False
    closed: bool = False


@dataclass
class Graph:
    """Operations in the order in which `call` makes them."""

    tensors: list[Array] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()

    def add(self, tensor: Any) -> int:
        """Notes a symbolic tensor; returns its index."""
        dtype = DTYPES.get(keras.backend.standardize_dtype(tensor.dtype), "f32")
        self.tensors.append(Array(tuple(int(size) for size in tensor.shape), dtype))
        return len(self.tensors) - 1


def trace(model: keras.Model, batch: int, input_shapes: Sequence[tuple[int, ...]] | None = None) -> Graph:
    """The graph of one training-mode forward pass of `batch` samples.

    Args:
        model: a built Keras model, or one that `input_shapes` suffices to build.
        batch: samples.
        input_shapes: per-sample shape of each input, where the model does not know them itself.
    """
    shapes = input_shapes or [tuple(tensor.shape[1:]) for tensor in model.inputs]
    dtypes = [tensor.dtype for tensor in model.inputs] if getattr(model, "inputs", None) else ["float32"] * len(shapes)
    images = [keras.KerasTensor((batch, *shape), dtype=dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    graph = Graph()
    with _history_put_back(model):
        known = {id(image): graph.add(image) for image in images}
        result = _call(model, (images if len(images) > 1 else images[0],), {})
        outputs = keras.tree.flatten(result)
        _visit(graph, outputs, known, model.name)
        graph.inputs = tuple(range(len(images)))
        graph.outputs = tuple(known[id(output)] for output in outputs)
    return graph


def _visit(graph: Graph, outputs: Sequence[Any], known: dict[int, int], where: str) -> None:
    """Adds the operations between the known tensors and `outputs`; `known` maps a symbolic tensor's id to its index."""
    for node in _in_order(outputs, known):
        operation, sources = node.operation, node.arguments.keras_tensors
        inputs = tuple(known[id(source)] for source in sources)
        if _changes_nothing(operation) and len(inputs) == len(node.outputs) == 1:
            known[id(node.outputs[0])] = inputs[0]
            continue
        opened = None
        if _may_open(operation):
            fresh = {id(source): keras.KerasTensor(source.shape, dtype=source.dtype) for source in sources}
            opened = _open(operation, node, fresh)
        if opened is None:
            results = tuple(graph.add(output) for output in node.outputs)
            known |= {id(output): index for output, index in zip(node.outputs, results, strict=True)}
            graph.ops.append(_op(operation, where, inputs, results))
        else:
            inside = {id(fresh[id(source)]): index for source, index in zip(sources, inputs, strict=True)}
            _visit(graph, opened, inside, _path(operation, where))
            known |= {id(output): inside[id(result)] for output, result in zip(node.outputs, opened, strict=True)}


def _in_order(outputs: Sequence[Any], known: dict[int, int]) -> Iterator[Any]:
    """The nodes that `outputs` depend on, each after those it depends on itself."""
    seen: set[int] = set()
    stack = [(output, False) for output in reversed(outputs)]
    while stack:
        tensor, ready = stack.pop()
        history = getattr(tensor, "_keras_history", None)
        if id(tensor) in known or history is None or history.operation is None:
            continue
        node = history.operation._inbound_nodes[history.node_index]
        if id(node) in seen:
            continue
        if ready:
            seen.add(id(node))
            yield node
        else:
            stack.append((tensor, True))
            stack += [(source, False) for source in reversed(node.arguments.keras_tensors)]


def _changes_nothing(operation: Any) -> bool:
    kind = type(operation).__name__
    return kind in ("ConvertToTensor", "Identity") or ("Dropout" in kind and not operation.rate)


def _may_open(operation: Any) -> bool:
    if not isinstance(operation, keras.Layer):
        return False
    own = type(operation).__module__.startswith("keras.src.layers.")
    return not own or isinstance(operation, keras.Model) or type(operation).__name__ in _OPENED


def _open(operation: keras.Layer, node: Any, fresh: dict[int, Any]) -> list[Any] | None:
    """What `call` makes of fresh symbolic tensors; None where it cannot run on them."""
    cast = {key: operation.dtype_policy.convert_input(tensor, operation.autocast, operation.input_dtype) for key, tensor in fresh.items()}
    args, kwargs = node.arguments.convert(lambda value: cast.get(id(value), value))
    try:
        outputs = keras.tree.flatten(_call(operation, args, kwargs))
    except Exception:  # whatever a user's code raises on a tensor without values: the layer then counts as one operation
        return None
    return outputs if all(isinstance(output, keras.KerasTensor) for output in outputs) else None


def _call(layer: keras.Layer, args: tuple, kwargs: dict[str, Any]) -> Any:
    """`layer.call` in training; Keras notes `training` among the arguments even where `call` does not take it."""
    kwargs = {name: value for name, value in kwargs.items() if name != "training"}
    if "training" in inspect.signature(layer.call).parameters:
        kwargs["training"] = True
    return layer.call(*args, **kwargs)


def _op(operation: Any, where: str, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Op:
    layer = isinstance(operation, keras.Layer)
    weights = [weight for weight in operation.trainable_weights if len(weight.shape) > 1] if layer else []
    activation = getattr(operation, "activation", None)
    name = getattr(activation, "__name__", None) or (type(activation).__name__ if activation else None)
    return Op(
        kind=type(operation).__name__,
        layer=_path(operation, where),
        inputs=inputs,
        outputs=outputs,
        kernel=tuple(weights[0].shape) if weights else None,
        activation=None if name == "linear" else name,
        drops=bool(getattr(operation, "rate", 0)) and "Dropout" in type(operation).__name__,
        closed=_may_open(operation),
    )


def _path(operation: Any, where: str) -> str:
    """Path of a layer, or of the one that an operation stands in."""
    if not isinstance(operation, keras.Layer):
        return where
    own = operation.path or operation.name
    return own if "/" in own or "/" not in where else f"{where}/{own}"  # a layer without weights may not know its place


@contextlib.contextmanager
def _history_put_back(model: keras.Model) -> Iterator[None]:
    """Takes away again what tracing adds to the layers' histories, so that `layer.output` still means what it did."""
    layers = [model, *model._flatten_layers(include_self=False, recursive=True)]
    before = {id(layer): (len(layer._inbound_nodes), len(layer._outbound_nodes)) for layer in layers}
    try:
        yield
    finally:
        for layer in layers:
            inbound, outbound = before[id(layer)]
            del layer._inbound_nodes[inbound:], layer._outbound_nodes[outbound:]
