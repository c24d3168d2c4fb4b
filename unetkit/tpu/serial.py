"""A compiled Keras model as plain data and back, without its weights: shapes are all that an analysis needs."""

from __future__ import annotations

import importlib
from typing import Any

from unetkit.errors import UserError


def describe(model, *, optimizer=None, loss=None, input_shape=None, target_shape=None) -> dict[str, Any]:
    """What a child process needs to build this model's training step again.

    Args:
        model: a Keras model that can be written as a config (functional, sequential, or with `get_config`).
        optimizer: a Keras optimizer or its name (None: the model's own, if compiled).
        loss: a Keras loss or its name (None: the model's own, if compiled).
        input_shape: of one sample, where the model leaves sizes open; a list of shapes for several inputs.
        target_shape: of one sample (None: that of the output, or without its classes for a sparse loss).

    Raises:
        UserError: something is missing, or cannot be written as a config.
    """
    import keras

    optimizer = optimizer if optimizer is not None else getattr(model, "optimizer", None)
    loss = loss if loss is not None else getattr(model, "loss", None)
    if optimizer is None or loss is None:
        missing = "an optimizer" if optimizer is None else "a loss"
        raise UserError(f"The training step of {model.name} needs {missing}: pass optimizer=..., loss=..., or compile the model first.")
    optimizer, loss = keras.optimizers.get(optimizer), keras.losses.get(loss) if isinstance(loss, str) else loss
    try:
        config = keras.saving.serialize_keras_object({"model": model, "optimizer": optimizer, "loss": loss})
    except (TypeError, ValueError, NotImplementedError) as error:
        raise UserError(f"{type(model).__name__} {model.name!r} cannot be written as a config for the analysis: {error}") from error
    return {
        "config": config,
        "modules": sorted({type(layer).__module__ for layer in _flat(model)} | {type(loss).__module__, type(optimizer).__module__}),
        "policy": keras.config.dtype_policy().name,
        "input_shapes": _shapes([x.shape for x in model.inputs], input_shape, "input_shape"),
        "target_shapes": _target_shapes(model, loss, target_shape),
    }


def rebuild(description: dict[str, Any], batch: int):
    """The compiled model with its optimizer built, and (inputs, targets) of a batch as things with shape and dtype."""
    import keras

    for module in description["modules"]:
        importlib.import_module(module)
    keras.config.set_dtype_policy(description["policy"])
    made = keras.saving.deserialize_keras_object(description["config"])
    model = made["model"]
    model.compile(optimizer=made["optimizer"], loss=made["loss"])
    model.optimizer.build(model.trainable_variables)
    data = batch_of(description, model, batch)
    model._symbolic_build(data_batch=data)  # what `fit` does first: makes the loss trackers
    return model, data


def batch_of(description: dict[str, Any], model, batch: int):
    """(inputs, targets) of a batch as things with shape and dtype."""
    import keras

    inputs = [keras.KerasTensor((batch, *shape), dtype=x.dtype) for shape, x in zip(description["input_shapes"], model.inputs, strict=True)]
    targets = [
        keras.KerasTensor((batch, *shape), dtype="int32" if len(shape) < len(x.shape) - 1 else "float32")
        for shape, x in zip(description["target_shapes"], model.outputs, strict=True)
    ]
    return (inputs[0] if len(inputs) == 1 else inputs, targets[0] if len(targets) == 1 else targets)


def in_bfloat16(description: dict[str, Any]) -> dict[str, Any]:
    """The same model with every layer's policy float32 made mixed_bfloat16; the weights stay in float32."""

    def narrowed(value: Any) -> Any:
        if isinstance(value, dict):
            if value.get("class_name") == "DTypePolicy" and value.get("config", {}).get("name") == "float32":
                return {**value, "config": {**value["config"], "name": "mixed_bfloat16"}}
            return {key: narrowed(item) for key, item in value.items()}
        return [narrowed(item) for item in value] if isinstance(value, list | tuple) else value

    return {**description, "config": narrowed(description["config"])}


def _flat(model) -> list:
    return list(model._flatten_layers()) if hasattr(model, "_flatten_layers") else [model]


def _shapes(known: list, given, name: str) -> list[list[int]]:
    asked = [None] * len(known) if given is None else [given] if len(known) == 1 and not isinstance(given[0], list | tuple) else list(given)
    found = []
    for shape, override in zip(known, asked, strict=True):
        sizes = list(override or shape[1:])
        if any(n is None for n in sizes):
            raise UserError(
                f"{name}: the model leaves sizes open ({tuple(sizes)}); a TPU program has none. Pass {name}=(...), without the batch."
            )
        found.append([int(n) for n in sizes])
    return found


def _target_shapes(model, loss, target_shape) -> list[list[int]]:
    outputs = [x.shape for x in model.outputs]
    if target_shape is not None:
        return _shapes(outputs, target_shape, "target_shape")
    sparse = "sparse" in (getattr(loss, "name", None) or getattr(loss, "__name__", "")).lower()
    return _shapes([shape[:-1] if sparse else shape for shape in outputs], None, "target_shape")
