"""`check_block` proves that a layer of yours keeps every promise that unetkit's own blocks keep."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from unetkit.blocks.lookup import accepted_arguments
from unetkit.blocks.precision import dtype_policy
from unetkit.compiled import call_mode, compiled, state_of, unknown_backend

NAME = "probe"
BATCH = 2


def check_block(
    block: type | Callable[..., keras.layers.Layer],
    /,
    input_shape: tuple[int, ...] = (8, 8, 4),
    embedding: int | None = None,
    inputs: Sequence[np.ndarray] | None = None,
    **args: Any,
) -> None:
    """Builds, calls, differentiates, saves and loads a layer, and compares what it says of itself with what it does.

    Checked are: finite outputs, the same twice; the symbolic shape is the real one; the gradient reaches the input and every
    trainable weight; the config holds every constructor argument; a saved model opens with the same config and outputs; under
    `mixed_bfloat16` the weights stay float32 and the outputs stay near; weight names depend neither on what was built
    before nor on the size of the image. Calls are compiled by the Keras backend in use, as training compiles them.

    ```python
    check_block(MyBlock, channels=8, norm="instance", expansion=3)
    ```

    Args:
        block: a layer class, or a function that makes a layer; it must take `name`.
        input_shape: (height, width, channels), or (width, channels) for a layer of signals; even sides.
        embedding: channels of an embedding (b, e) that the layer takes as its second input.
        inputs: other inputs of the layer's `call`, the first of them in place of the image, with `BATCH` rows.
        **args: its arguments; `channels` is 8 where the class takes it and it is not given.

    Raises:
        AssertionError: saying which promise is broken, and how.
    """
    if isinstance(block, type) and "channels" in accepted_arguments(block):
        args = {"channels": 8} | args

    def make() -> keras.layers.Layer:
        return block(**args, name=NAME)

    rng = np.random.default_rng(0)
    shapes = [input_shape] if embedding is None else [input_shape, (embedding,)]
    xs = list(inputs) if inputs is not None else [rng.normal(size=(BATCH, *shape)).astype("float32") for shape in shapes]
    layer = make()
    layer.build(xs[0].shape)
    randomize(layer)
    y = check_call(layer, xs)
    check_symbolic_shape(make(), xs, y.shape[1:])
    check_gradient(layer, xs, y.shape)
    check_config(layer, args)
    check_saving(layer, xs)
    check_bfloat16(make, layer, xs)
    check_names(make, layer, xs[0].shape)


def check_call(layer: keras.layers.Layer, xs: list[np.ndarray]) -> np.ndarray:
    who = type(layer).__name__
    function = compiled(layer)
    first, second = function(*xs), function(*xs)
    assert np.isfinite(first).all(), f"{who}: outputs of unit normal inputs are not finite"
    assert np.array_equal(first, second), f"{who}: two calls with training=False differ; only training may be random"
    return first


def check_symbolic_shape(layer: keras.layers.Layer, xs: list[np.ndarray], real: tuple[int, ...]) -> None:
    who = type(layer).__name__
    symbolic = layer(*(keras.Input(x.shape[1:], dtype=x.dtype) for x in xs)).shape[1:]
    assert None not in symbolic, f"{who}: the symbolic output {symbolic} has unknown sides; a TPU program needs each of them"
    assert symbolic == real, f"{who}: says that its output is {symbolic}, but it is {real}"


def check_gradient(layer: keras.layers.Layer, xs: list[np.ndarray], output_shape: tuple[int, ...]) -> None:
    who = type(layer).__name__
    by_input, by_weight = gradients(layer, xs, output_shape)
    named = [
        *((f"input {n}" if n else "the input", g) for n, g in enumerate(by_input)),
        *((weight.path, g) for weight, g in zip(layer.trainable_weights, by_weight, strict=True)),
    ]
    for name, gradient in named:
        assert gradient is not None and np.any(gradient), f"{who}: the gradient does not reach {name}; is it used in `call`?"
        assert np.isfinite(gradient).all(), f"{who}: the gradient of {name} is not finite"


def check_config(layer: keras.layers.Layer, args: dict[str, Any]) -> None:
    cls = type(layer)
    config = layer.get_config()
    missing = accepted_arguments(cls) - accepted_arguments(keras.layers.Layer) - set(config)
    assert not missing, f"{cls.__name__}.get_config lacks {', '.join(sorted(missing))}: a saved model would come back without"
    again = cls.from_config(config).get_config()
    assert again == config, f"{cls.__name__}: made again from its config it says {differences(config, again)}"
    given = {name: value for name, value in args.items() if name in config and isinstance(value, (bool, int, float, str, type(None)))}
    kept = {name: config[name] for name in given}
    assert kept == given, f"{cls.__name__}.get_config does not return the arguments it was given: {differences(given, kept)}"


def check_saving(layer: keras.layers.Layer, xs: list[np.ndarray]) -> None:
    cls = type(layer)
    symbols = [keras.Input(x.shape[1:], dtype=x.dtype) for x in xs]
    model = keras.Model(symbols if len(xs) > 1 else symbols[0], layer(*symbols))
    with tempfile.TemporaryDirectory() as folder, keras.saving.custom_object_scope({cls.__name__: cls}):
        file = Path(folder) / "model.keras"
        model.save(file)
        loaded = keras.models.load_model(file)
    loaded_layer = loaded.get_layer(layer.name)
    assert type(loaded_layer) is cls, f"{cls.__name__}: loaded as {type(loaded_layer).__name__}"
    changed = differences(layer.get_config(), loaded_layer.get_config())
    assert not changed, f"{cls.__name__}: saving and loading changes its config: {changed}"
    given = xs if len(xs) > 1 else xs[0]
    error = np.abs(compiled(loaded)(given) - compiled(model)(given)).max()
    assert error < 1e-6, f"{cls.__name__}: saving and loading changes its outputs by {error:.1e}"


def check_bfloat16(make: Callable[[], keras.layers.Layer], layer: keras.layers.Layer, xs: list[np.ndarray]) -> None:
    who = type(layer).__name__
    with dtype_policy("mixed_bfloat16"):
        half = make()
        half.build(xs[0].shape)
        half.set_weights(layer.get_weights())
        found = compiled(half)(*xs)
    wrong = [weight.path for weight in half.weights if weight.dtype != "float32"]
    assert not wrong, f"{who}: under mixed_bfloat16 weights must stay float32; {', '.join(wrong)} did not"
    assert np.isfinite(found).all(), f"{who}: outputs under mixed_bfloat16 are not finite"
    expected = compiled(layer)(*xs)
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert error < 0.1, f"{who}: outputs under mixed_bfloat16 are {error:.0%} off those under float32"


def check_names(make: Callable[[], keras.layers.Layer], layer: keras.layers.Layer, input_shape: tuple[int, ...]) -> None:
    who = type(layer).__name__
    names = [(weight.path, tuple(weight.shape)) for weight in layer.weights]
    assert len({path for path, _ in names}) == len(names), f"{who}: two weights share a name among {[path for path, _ in names]}"
    astray = [path for path, _ in names if not path.startswith(f"{NAME}/")]
    assert not astray, f"{who}: {', '.join(astray)} lie outside of the layer's own name; build sublayers in `build` or `call`"
    if len(input_shape) < 3:
        return  # no sides that could be another size
    again = make()
    batch, *sides, channels = input_shape
    again.build((batch, *(2 * side for side in sides), channels))
    renamed = [(weight.path, tuple(weight.shape)) for weight in again.weights]
    assert renamed == names, (
        f"{who}: built again for a larger image its weights are {renamed}, not {names}; give every sublayer a name of its own"
    )


def randomize(layer: keras.layers.Layer) -> None:
    """Moves every trainable weight off its initial value, so that no gradient is zero because of a zero elsewhere."""
    rng = np.random.default_rng(1)
    for weight in layer.trainable_weights:
        weight.assign(weight.numpy() + rng.normal(0, 0.1, weight.shape))


def gradients(layer: keras.layers.Layer, xs: list[np.ndarray], output_shape: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """Gradients, in training, of a weighted sum of the outputs: by each input of floats and each trainable weight (None: not reached)."""
    mode = call_mode(layer, training=True)
    mix = np.random.default_rng(2).normal(size=output_shape).astype("float32")
    floats = [n for n, x in enumerate(xs) if x.dtype.kind == "f"]

    def whole(some):
        given = dict(zip(floats, some, strict=True))
        return [given.get(n, x) for n, x in enumerate(xs)]

    if keras.backend.backend() == "jax":
        import jax

        def loss(some, trainable, other):
            return ops.sum(layer.stateless_call(trainable, other, *whole(some), **mode)[0] * mix)

        return jax.jit(jax.grad(loss, argnums=(0, 1)))([xs[n] for n in floats], *state_of(layer))
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        @tf.function
        def by_input_and_weights(*some):
            with tf.GradientTape() as tape:
                tape.watch(some)
                loss = ops.sum(layer(*whole(some), **mode) * mix)
            return tape.gradient(loss, (list(some), [weight.value for weight in layer.trainable_variables]))

        return by_input_and_weights(*(tf.constant(xs[n]) for n in floats))
    raise unknown_backend()


def differences(expected: dict[str, Any], found: dict[str, Any]) -> str:
    keys = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
    return ", ".join(f"{key}={found.get(key)!r} instead of {expected.get(key)!r}" for key in keys)
