"""The formats of a bundle: what each needs, how it is written, and how its own runtime reads it again."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unetkit.errors import UserError, WorkError

if TYPE_CHECKING:
    import keras

Run = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Format:
    """One format.

    Args:
        file: name of the file (or folder) inside the bundle.
        engine: the Keras backend that writes it; None: either.
        write_needs: module -> what to install, to write it.
        read_needs: the same, to run it.
        write: (model, shape with the batch, path).
        open: path -> a function (batch, *tile, c) -> (batch, *tile, co).
    """

    file: str
    engine: str | None
    write_needs: dict[str, str]
    read_needs: dict[str, str]
    write: Callable[[keras.Model, tuple[int, ...], Path], None]
    open: Callable[[Path], Run]


def known(name: str) -> Format:
    """The format of a name; raises UserError where there is none."""
    if name not in FORMATS:
        raise UserError(f"format: {name!r} is none of {', '.join(FORMATS)}")
    return FORMATS[name]


def require(name: str, needs: dict[str, str], verb: str) -> None:
    """Raises UserError where a package is missing that writing or running a format needs."""
    missing = [hint for module, hint in needs.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise UserError(f"format: to {verb} {name}, install what is missing: pip install {' '.join(missing)}")


def _write_keras(model: keras.Model, shape: tuple[int, ...], path: Path) -> None:
    model.save(path)


def _open_keras(path: Path) -> Run:
    import keras

    from unetkit.compiled import compiled

    return compiled(keras.saving.load_model(path, compile=False))


def _by_keras(name: str) -> Callable[[keras.Model, tuple[int, ...], Path], None]:
    """Writes by `keras.Model.export`, for one shape."""

    def write(model: keras.Model, shape: tuple[int, ...], path: Path) -> None:
        import keras

        signature = [keras.InputSpec(shape=shape, dtype="float32")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the converters, about NumPy's next version and the like
            model.export(path, format=name, verbose=False, input_signature=signature)

    return write


def _open_savedmodel(path: Path) -> Run:
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))
    return lambda x: loaded.serve(x).numpy()


def _open_onnx(path: Path) -> Run:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=onnxruntime.get_available_providers())
    name = session.get_inputs()[0].name
    return lambda x: session.run(None, {name: x})[0]


def _write_stablehlo(model: keras.Model, shape: tuple[int, ...], path: Path) -> None:
    import jax

    from unetkit.compiled import state_of

    state = state_of(model)
    forward = jax.jit(lambda x: model.stateless_call(*state, x, training=False)[0].astype("float32"))
    program = jax.export.export(forward, platforms=("cpu", "cuda", "tpu"))(jax.ShapeDtypeStruct(shape, "float32"))
    path.write_bytes(program.serialize())


def _open_stablehlo(path: Path) -> Run:
    import jax

    call = jax.jit(jax.export.deserialize(bytearray(path.read_bytes())).call)
    return lambda x: np.asarray(call(x))


def _open_litert(path: Path) -> Run:
    if importlib.util.find_spec("ai_edge_litert"):
        from ai_edge_litert.interpreter import Interpreter
    else:
        import tensorflow as tf

        Interpreter = tf.lite.Interpreter
    interpreter: Any = Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    given, made = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]

    def run(x: np.ndarray) -> np.ndarray:
        interpreter.set_tensor(given, x)
        interpreter.invoke()
        return interpreter.get_tensor(made)

    return run


TENSORFLOW = {"tensorflow": "'unetkit[cpu]'"}

FORMATS = {
    "keras": Format("model.keras", None, {}, {}, _write_keras, _open_keras),
    "savedmodel": Format("model", "tensorflow", TENSORFLOW, TENSORFLOW, _by_keras("tf_saved_model"), _open_savedmodel),
    "onnx": Format(
        "model.onnx",
        "tensorflow",
        TENSORFLOW | {"onnx": "'unetkit[export]'", "tf2onnx": "'unetkit[export]'"},
        {"onnxruntime": "onnxruntime"},
        _by_keras("onnx"),
        _open_onnx,
    ),
    "stablehlo": Format("model.stablehlo", "jax", {"jax": "'unetkit[jax]'"}, {"jax": "'unetkit[jax]'"}, _write_stablehlo, _open_stablehlo),
    "litert": Format("model.tflite", "tensorflow", TENSORFLOW, {}, _by_keras("litert"), _open_litert),
}


def write(name: str, model: keras.Model, shape: tuple[int, ...], path: Path) -> None:
    """Writes a model for one shape.

    Raises:
        WorkError: the converter could not, with its reason.
    """
    try:
        FORMATS[name].write(model, shape, path)
    except Exception as error:  # converters raise whatever they like
        raise WorkError(f"{name} cannot be written of this model: {type(error).__name__}: {str(error)[:500]}") from error
