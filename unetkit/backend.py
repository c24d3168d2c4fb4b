"""Chooses the Keras backend before Keras is imported, and refuses a choice that came too late.

Keras reads `KERAS_BACKEND` once, at its first import. A recipe that says `backend: jax` in a process that already holds
Keras on TensorFlow would otherwise train on TensorFlow without a word.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from unetkit.errors import UserError

MODULES = {"tensorflow": "tensorflow", "jax": "jax"}
NOTES = ("All log messages before absl::InitializeLog()", "oneDNN custom operations are on")  # of TensorFlow's import: nothing to act on
EXTRAS = {"tensorflow": "pip install 'unetkit[cpu]' (or [gpu], [tpu])", "jax": "pip install 'unetkit[jax]' (or [tpu-jax])"}


def select(backend: str) -> None:
    """Makes Keras use `backend` ("tensorflow" or "jax") in this process.

    Raises:
        UserError: the backend's package is missing, Keras was already imported with another backend, or `KERAS_BACKEND`
            is set to another one.
    """
    if "keras" in sys.modules:
        import keras

        loaded = keras.backend.backend()
        if loaded != backend:
            raise UserError(
                f"backend: the recipe says {backend}, but Keras is already loaded with {loaded} in this process. "
                f"Use `backend: {loaded}` in the recipe, or start a new process with KERAS_BACKEND={backend}."
            )
        return
    asked = os.environ.get("KERAS_BACKEND")
    if asked and asked != backend:
        raise UserError(
            f"backend: the recipe says {backend}, but the environment says KERAS_BACKEND={asked}. "
            f"Unset KERAS_BACKEND, or pass --set backend={asked}."
        )
    if importlib.util.find_spec(MODULES[backend]) is None:
        raise UserError(f"backend: {backend} is not installed. Install it: {EXTRAS[backend]}.")
    os.environ["KERAS_BACKEND"] = backend
    if backend == "jax" and not os.path.exists("/dev/accel0") and not os.path.isdir("/dev/vfio"):
        # An installed libtpu makes JAX look for a TPU at every start: seconds, and warnings about a chip nobody asked for.
        cuda = any(importlib.util.find_spec(f"jax_cuda{n}_plugin") for n in (12, 13))
        os.environ.setdefault("JAX_PLATFORMS", "cuda,cpu" if cuda else "cpu")
    # TensorFlow turns its oneDNN kernels on by itself only for processors with neural-network instructions; the step of the
    # emoji recipe ran 1.4 times as fast with them on one without (benchmarks/onednn.py).
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow's start-up notes would bury the progress line
    if backend == "tensorflow":
        os.environ.update(_tpu_environment(os.environ))
        _import_without_notes("tensorflow")


def _tpu_environment(given: Mapping[str, str], root: Path = Path("/")) -> dict[str, str]:
    """What tensorflow-tpu has to find in the environment before its first import, less what is `given`.

    Without a TPU it would ask Google's metadata server for minutes. With one of v5e or later (whose device files are /dev/vfio/*)
    it needs the PJRT runtime, which has to be asked for; with these set and no TPU its import would abort.
    """
    if not _is_installed("tensorflow-tpu"):
        return {}
    newer = [p for p in root.glob("dev/vfio/*") if p.name != "vfio"]
    if not newer:
        older = list(root.glob("dev/accel*"))
        return {} if older or "TPU_SKIP_MDS_QUERY" in given else {"TPU_SKIP_MDS_QUERY": "1"}
    flags = ("enable_mlir_bridge", "enable_convert_control_to_data_outputs_pass", "enable_merge_control_flow_pass")
    wanted = {
        "PJRT_DEVICE": "TPU",
        "NEXT_PLUGGABLE_DEVICE_USE_C_API": "true",
        "TF_XLA_FLAGS": " ".join(f"--tf_mlir_{flag}=true" for flag in flags),
    }
    found = importlib.util.find_spec("libtpu")
    if found is not None and found.origin:
        wanted["TF_PLUGGABLE_DEVICE_LIBRARY_PATH"] = str(Path(found.origin).with_name("libtpu.so"))
    return {name: value for name, value in wanted.items() if name not in given}


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def prefer(backend: str) -> None:
    """Makes Keras use `backend` where the choice is still open and it is installed, else the other engine.

    For work with a trained run, whose weights every engine reads alike.

    Raises:
        UserError: no engine is installed.
    """
    if "keras" in sys.modules or os.environ.get("KERAS_BACKEND"):
        return
    order = (backend, *(name for name in MODULES if name != backend))
    select(next((name for name in order if importlib.util.find_spec(MODULES[name])), backend))


def _import_without_notes(module: str) -> None:
    """Imports `module`, leaving its `NOTES` out of standard error: they are written by C++ before any log level counts."""
    if sys.stderr is None:  # started without one: there is nobody to spare
        importlib.import_module(module)
        return
    sys.stderr.flush()
    with tempfile.TemporaryFile() as held:
        stderr = os.dup(2)
        os.dup2(held.fileno(), 2)
        try:
            importlib.import_module(module)
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            kept = [line for line in held.read().decode(errors="replace").splitlines(keepends=True) if not any(n in line for n in NOTES)]
            sys.stderr.write("".join(kept))
