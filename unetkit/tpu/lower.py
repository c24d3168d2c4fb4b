"""Turns a recipe, or any Keras model, into the lowered training step that the compiler is asked about.

This is the parent's side. The model is built in a child process, because the Keras backend of a process is fixed and the
parent may be training with another one: `lower_jax.py` with JAX, `lower_tensorflow.py` with TensorFlow.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unetkit.errors import UserError, WorkError
from unetkit.tpu import child, progress
from unetkit.tpu.answer import BufferKind
from unetkit.tpu.ask import Program
from unetkit.tpu.cache import Cache
from unetkit.tpu.chips import Chip
from unetkit.tpu.environment import find_interpreter

MODULES = {"jax": "unetkit.tpu.lower_jax", "tensorflow": "unetkit.tpu.lower_tensorflow"}


@dataclass(frozen=True)
class Argument:
    """What an argument of the program is, and whose: `kind` and the weight's path."""

    kind: BufferKind
    path: str | None = None


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """One training step, lowered.

    Attributes:
        engine: whose step it is, jax or tensorflow.
        arguments: the program's arguments by the name the framework gave them, or by number as `#3`.
        image: height and width (or whatever axes the model has) of a sample.
        layers: names of the model's layers, by which TensorFlow's scopes are read; none on JAX.
    """

    name: str
    engine: str
    program: Program
    global_batch: int
    per_core_batch: int
    accumulation: int = 1
    precision: str = "float32"
    remat: str = "none"
    lowering: str = "plain"
    packing: str = "none"
    image: tuple[int, ...] = ()
    layers: tuple[str, ...] = ()
    arguments: dict[str, Argument] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def lower_recipes(recipes: Sequence[Any], chip: Chip, engine: str, show: progress.Show = progress.quiet) -> list[Lowered]:
    """The step that the trainer runs for each recipe, all built in one child.

    Args:
        recipes: of type `unetkit.recipe.Recipe`.
        chip: decides over how many replicas the batch is shared.
        engine: jax or tensorflow.

    Raises:
        UserError: the engine is not installed, a batch cannot be shared evenly, a model cannot be built.
        WorkError: the child failed for another reason; carries its words.
    """
    from unetkit.recipe import to_yaml

    own_code = any(":" in getattr(recipe.model, "block", "") for recipe in recipes)
    asked = [{"recipe": to_yaml(recipe), "batch": recipe.training.batch} for recipe in recipes]
    return _lower("recipe", asked, own_code, chip, engine, show)


def lower_recipe(recipe: Any, chip: Chip, batches: Sequence[int], engine: str, show: progress.Show = progress.quiet) -> list[Lowered]:
    """`lower_recipes` of one recipe at several global batches."""
    return lower_recipes([with_batch(recipe, batch) for batch in batches], chip, engine, show)


def with_batch(recipe: Any, batch: int) -> Any:
    """The recipe with another global batch."""
    return dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, batch=batch))


def lower_keras(model: dict[str, Any], chip: Chip, batch: int, show: progress.Show = progress.quiet) -> Lowered:
    """The step that `fit` runs on JAX for a Keras model, described by `unetkit.tpu.serial.describe`."""
    own_code = any(module.split(".")[0] not in ("keras", "unetkit") for module in model["modules"])
    (lowered,) = _lower("keras", [{**model, "batch": batch}], own_code, chip, "jax", show)
    return lowered


def _lower(kind: str, asked: list[dict[str, Any]], own_code: bool, chip: Chip, engine: str, show: progress.Show) -> list[Lowered]:
    python, root = _python(engine)
    request = {"kind": kind, "asked": asked, "replicas": chip.replicas}
    cache, key = Cache(), None if own_code else _key(request, engine, python)
    if entry := key and cache.find(key):
        return _read(entry, engine, chip)
    with tempfile.TemporaryDirectory(prefix="unetkit-lower-") as name:
        work = Path(name)
        paths = [p for p in sys.path if p and not Path(p).is_relative_to(sys.base_prefix) and not Path(p).is_relative_to(sys.prefix)]
        (work / "request.json").write_text(json.dumps({**request, "paths": [*paths, os.getcwd()]}))
        start = f"import sys; sys.path[:0] = {root!r}; from {MODULES[engine]} import main; main(sys.argv[1])"
        environment = {
            **os.environ,
            "KERAS_BACKEND": engine,
            "JAX_PLATFORMS": "cpu",
            "CUDA_VISIBLE_DEVICES": "-1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        ended = child.run([python, "-c", start, str(work)], environment, lambda seconds: show("building the training step", seconds, None))
        if not (work / "lowered.json").exists():
            raise WorkError(f"Lowering the training step failed ({ended.death}):\n{ended.stderr}")
        lowered = _read(work, engine, chip)
        if key:
            with cache.making(key):
                cache.put(key, lambda folder: shutil.copytree(work, folder, dirs_exist_ok=True))
        return lowered


def _read(work: Path, engine: str, chip: Chip) -> list[Lowered]:
    found = json.loads((work / "lowered.json").read_text())
    if "error" in found:
        raise UserError(found["error"])
    return [_lowered(entry, work, engine, chip) for entry in found["programs"]]


def _key(request: dict[str, Any], engine: str, python: str) -> str:
    """Under what lowered steps are kept: everything that they are made from, but for code of the user's own."""
    package = Path(__file__).resolve().parents[1]
    sources = [(str(p.relative_to(package)), s.st_size, s.st_mtime_ns) for p in sorted(package.rglob("*.py")) for s in [p.stat()]]
    versions = [importlib.metadata.version(name) for name in ("keras", "numpy")]
    parts = (request, engine, python, _stamp(engine), sources, versions)
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def _stamp(engine: str) -> str:
    """When the engine's package was installed, and as which version: changes with every upgrade."""
    spec = importlib.util.find_spec(engine)
    return f"{spec.origin} {Path(spec.origin).stat().st_mtime_ns}" if spec and spec.origin else "elsewhere"


def _lowered(entry: dict[str, Any], work: Path, engine: str, chip: Chip) -> Lowered:
    program = entry.pop("program")
    arguments = {name: Argument(**what) for name, what in entry.pop("arguments").items()}
    code = (work / program.pop("file")).read_bytes()
    return Lowered(
        **{**entry, "image": tuple(entry["image"]), "layers": tuple(entry.get("layers", ()))},
        engine=engine,
        program=Program(code=code, **program),
        arguments=arguments,
        per_core_batch=entry["global_batch"] // entry["accumulation"] // chip.replicas,
    )


def _python(engine: str) -> tuple[str, list[str]]:
    """The Python that can lower with an engine, and what to put on its path so that it finds this unetkit."""
    if importlib.util.find_spec(engine):
        return sys.executable, [str(Path(__file__).resolve().parents[2])]
    if engine == "jax":
        other = find_interpreter()
        if other.versions.get("keras"):
            return other.python, []
    raise UserError(f"--program {engine}: {engine} is not installed here. Install it (pip install 'unetkit[{_EXTRA[engine]}]').")


_EXTRA = {"jax": "jax", "tensorflow": "cpu"}
