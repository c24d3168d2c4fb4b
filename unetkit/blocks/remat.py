"""Rematerialisation (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"): memory for time, same numbers."""

import contextlib
from collections.abc import Iterator

import keras


def rematerialize(model: keras.Model) -> None:
    """From now on the blocks of `model` keep only their inputs in training, and compute the rest again for their gradients."""
    from unetkit.blocks.base import Block

    for layer in model._flatten_layers():
        if isinstance(layer, Block):
            layer.remat = True


def recomputed(layer: keras.layers.Layer, inputs: tuple, training: bool):
    """What a built layer makes of its inputs, keeping nothing of its inside for the backward pass.

    The layer is called as a pure function of its variables' values, since a backend may trace it apart and twice: a variable
    assigned inside would hold a tensor of that trace. It is called as a whole, so that its sublayers learn of `training` from
    Keras in the second trace too.

    Args:
        layer: with an attribute `remat`, which is False while the layer calls itself.
        inputs: of its `call`: x, (b, h, w, c), and an embedding where it takes one.
        training: as in `call`.
    """
    other = layer.non_trainable_variables
    held = [variable.value for variable in other]

    def pure(*arrays):
        given, values = arrays[: len(inputs)], arrays[len(inputs) :]
        mapping = zip([*layer.trainable_variables, *other], [*values, *held], strict=True)
        with keras.StatelessScope(state_mapping=list(mapping)) as scope, _kept(layer):
            y = layer(*given, training=training)
        updates = (scope.get_current_value(variable) for variable in other)
        return y, *(old if new is None else new for old, new in zip(held, updates, strict=True))

    y, *new = keras.remat(pure)(*inputs, *(keras.ops.convert_to_tensor(variable.value) for variable in layer.trainable_variables))
    for variable, value in zip(other, new, strict=True):
        variable.assign(value)
    return y


@contextlib.contextmanager
def _kept(layer) -> Iterator[None]:
    layer.remat = False
    try:
        yield
    finally:
        layer.remat = True
