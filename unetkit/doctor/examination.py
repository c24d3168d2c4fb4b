"""What is looked at. Each check is a fact in words, whether it is well, and what to do where it is not."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unetkit import backend as backends
from unetkit.doctor import trial
from unetkit.errors import UserError
from unetkit.files import cache_root
from unetkit.runs.environment import environment
from unetkit.tpu.environment import CompilerMissing, find_interpreter
from unetkit.train.tpu_diagnosis import LIBTPU, diagnose

Device = Literal["auto", "cpu", "gpu", "tpu"]
State = Literal["ok", "warning", "failed"]

DEVICE_VARIABLE = "UNETKIT_DEVICE"  # the images for TPUs set it, so that a missing TPU is a fault there
DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "tensorflow-tpu")
LEAST_DISK, LITTLE_DISK = 200e6, 5e9
LITTLE_MEMORY = 2e9


@dataclass(frozen=True)
class Check:
    """One check: `found` is what there is, `remedy` what to do ("" where nothing needs doing)."""

    name: str
    state: State
    found: str
    remedy: str = ""


def healthy(checks: list[Check]) -> bool:
    """Whether nothing failed; a warning is no failure."""
    return all(check.state != "failed" for check in checks)


def examine(device: Device, backend: str | None, folder: Path, *, quick: bool = False) -> Iterator[Check]:
    """The checks, one after the other as they are made.

    Args:
        device: that is wanted; auto takes any, unless the variable UNETKIT_DEVICE names one.
        backend: engine to try (None: the one that `KERAS_BACKEND` names, or that is installed).
        folder: where run folders go.
        quick: neither load an engine nor train a step, as beside a running training that holds the device.
    """
    named = os.environ.get(DEVICE_VARIABLE, "auto")
    wanted = named if device == "auto" and named in ("cpu", "gpu", "tpu") else device
    yield _versions()
    engine = backend or os.environ.get("KERAS_BACKEND") or next((name for name in backends.MODULES if _installed(name)), None)
    yield _engine(engine)
    yield _libtpu()
    yield _tpu(wanted)
    yield _compiler()
    for title, place in (("run folders", folder), ("cache", cache_root()), ("temporary files", Path(tempfile.gettempdir()))):
        yield _writable(title, place)
    yield _disk(folder)
    yield _memory()
    if not quick and engine in backends.MODULES and _installed(engine):
        yield _trial(engine, wanted)


def _versions() -> Check:
    facts = environment()
    found = ", ".join(f"{name} {facts[name]}" for name in ("unetkit", "python", "keras", "numpy") if facts[name])
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Check("versions", "failed", found, "unetkit needs Python 3.11 to 3.13: make an environment with one of these")
    if facts["keras"] is None:
        return Check("versions", "failed", found, "keras is missing: pip install unetkit again")
    return Check("versions", "ok", f"{found}; {facts['platform']}")


def _engine(engine: str | None) -> Check:
    present = [f"{name} {version}" for name in (*DISTRIBUTIONS, "jax") if (version := _version(name))]
    found = ", ".join(present) or "neither TensorFlow nor JAX"
    several = [name for name in DISTRIBUTIONS if _version(name)]
    if len(several) > 1:
        remedy = f"these are one package and overwrite each other: pip uninstall {' '.join(several)}, then install one of them again"
        return Check("engine", "failed", found, remedy)
    if engine is None or not _installed(engine):
        remedy = backends.EXTRAS.get(engine or "tensorflow") or "KERAS_BACKEND names no engine of unetkit's: tensorflow or jax"
        return Check("engine", "failed", f"{found}; wanted: {engine or 'either'}", remedy)
    return Check("engine", "ok", f"{found}; used: {engine}")


def _libtpu() -> Check:
    tensorflow, libtpu = _version("tensorflow-tpu"), _version("libtpu")
    found = f"tensorflow-tpu {tensorflow or 'not installed'}, libtpu {libtpu or 'not installed'}"
    right = LIBTPU.get(tensorflow or "")
    if tensorflow and right and libtpu not in right:
        return Check("libtpu", "failed", found, f"tensorflow-tpu {tensorflow} works with libtpu {right[0]}: pip install libtpu=={right[0]}")
    if tensorflow and not right:
        return Check("libtpu", "warning", found, f"not tried; known to load: {', '.join(f'{a} with {b[0]}' for a, b in LIBTPU.items())}")
    return Check("libtpu", "ok", found)


def _tpu(wanted: str) -> Check:
    looked = diagnose()
    try:
        looked.require()
    except UserError as error:
        if wanted == "tpu" or (looked.chips and wanted == "auto"):
            *seen, remedy = str(error).splitlines()
            return Check("TPU", "failed", "; ".join(line.strip() for line in seen[1:]), remedy)
        return Check("TPU", "ok", f"none, and none asked for ({looked.chips} chips on the PCI bus)")
    return Check("TPU", "ok", f"{looked.chips} chips, {', '.join(looked.files)}")


def _compiler() -> Check:
    """The compiler is asked about a TPU; nothing of a training needs it."""
    try:
        found = find_interpreter()
    except CompilerMissing as error:
        return Check("TPU compiler", "ok", f"none, so that `unetkit inspect` answers by arithmetic: {error}")
    except UserError as error:
        return Check("TPU compiler", "failed", str(error), "mend or unset the variable")
    if not found.tested:
        return Check("TPU compiler", "warning", f"{found.compiler} ({found.origin})", "these versions were not tested")
    return Check("TPU compiler", "ok", f"{found.compiler} ({found.origin})")


def _writable(title: str, folder: Path) -> Check:
    place = _existing(folder)
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".unetkit-doctor-") as file:
            file.write(b"x")
            file.flush()
    except OSError as error:
        return Check(
            title, "failed", f"{folder}: {error.strerror or error}", f"make {place} writable for user {_user()}, or name another folder"
        )
    return Check(title, "ok", f"{folder.absolute()} can be written")


def _disk(folder: Path) -> Check:
    free = shutil.disk_usage(_existing(folder)).free
    found = f"{free / 1e9:.1f} GB free for run folders"
    if free < LEAST_DISK:
        return Check("disk", "failed", found, "a checkpoint would not fit: make room")
    return Check("disk", "warning" if free < LITTLE_DISK else "ok", found, "little for checkpoints" if free < LITTLE_DISK else "")


def _memory() -> Check:
    free, limit = available_memory(), memory_limit()
    if free is None:
        return Check("memory", "ok", "unknown on this system")
    found = f"{free / 1e9:.1f} GB available" + (f", of which this container may use {limit / 1e9:.1f} GB in all" if limit else "")
    little = min(free, limit or free) < LITTLE_MEMORY
    return Check("memory", "warning" if little else "ok", found, "little for training: an engine alone takes about 1 GB" if little else "")


def _trial(engine: str, wanted: str) -> Check:
    done = trial.run(engine, wanted)
    return Check("one training step", "ok" if done.works else "failed", done.found, done.remedy)


def available_memory(path: Path = Path("/proc/meminfo")) -> int | None:
    """Bytes that processes can still have, by Linux; None elsewhere."""
    try:
        lines = dict(line.split(":", 1) for line in path.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def memory_limit(path: Path = Path("/sys/fs/cgroup/memory.max")) -> int | None:
    """Bytes that a container's limit allows; None where there is none."""
    try:
        text = path.read_text().strip()
        return None if text == "max" else int(text)
    except (OSError, ValueError):
        return None


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there: that is where it would be made."""
    return next((place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir()), Path("/"))


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "")


def _installed(engine: str) -> bool:
    return engine in backends.MODULES and importlib.util.find_spec(backends.MODULES[engine]) is not None


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
