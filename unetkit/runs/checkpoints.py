"""Checkpoints on disk: written so that a kill at any instant leaves a good one, and checked before they are used.

    checkpoints/step_00001234/weights.npz, optimizer.npz, ...   one file per group of arrays, uncompressed
                              meta.json                         step, images, metrics, whatever the caller adds
                              COMPLETE.json                     written last: name, bytes and CRC-32 of each file

The folder is not renamed into place, because object stores cannot rename folders: it counts from the moment that its
marker is there.
"""

from __future__ import annotations

import json
import shutil
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unetkit import files
from unetkit.errors import UserError, WorkError
from unetkit.runs.stats import plain

MARKER = "COMPLETE.json"
META = "meta.json"
_PREFIX = "step_"
_CHUNK = 1 << 20

# What can decide which checkpoint is best, and whether more of it is better.
HIGHER_IS_BETTER = {"psnr": True, "snr": True, "ssim": True, "l1": False}


@dataclass(frozen=True)
class Checkpoint:
    """One complete checkpoint."""

    path: Path
    meta: Mapping[str, Any]

    @property
    def step(self) -> int:
        """Optimizer steps done."""
        return int(self.meta["step"])

    @property
    def images(self) -> int:
        """Training images seen."""
        return int(self.meta["images"])

    @property
    def metrics(self) -> Mapping[str, float]:
        """Validation metrics measured at this step; empty when none were."""
        metrics: Mapping[str, float] = self.meta.get("metrics") or {}
        return metrics

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups of arrays in it, as `weights`, `ema`, `optimizer`."""
        return tuple(sorted(file.stem for file in self.path.glob("*.npz")))

    def arrays(self, group: str) -> dict[str, np.ndarray]:
        """The arrays of one group under the names they were saved by.

        Raises:
            UserError: there is no such group.
            WorkError: the file cannot be read.
        """
        if group not in self.groups:
            raise UserError(f"{self.path} holds no {group!r}; it holds {', '.join(self.groups) or 'nothing'}")
        try:
            with np.load(self.path / f"{group}.npz", allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise WorkError(f"cannot read {self.path / group}.npz: {error}. Is the run being trained right now? Then try again.") from error


def folder_name(step: int) -> str:
    """Where the checkpoint of a step lies: fixed width, so that names sort by step."""
    return f"{_PREFIX}{step:08d}"


def write(root: Path, step: int, images: int, arrays: Mapping[str, Mapping[str, np.ndarray]], meta: Mapping[str, Any]) -> Checkpoint:
    """Writes the checkpoint of `step` under `root`; one that is there already, and good, is left as it is.

    Raises:
        WorkError: it could not be written, most often because the disk is full. Nothing of it is left then.
    """
    folder = root / folder_name(step)
    if folder.exists():
        if damage(folder) is None:
            return load(folder)
        remove(folder)
    whole = plain({**meta, "step": step, "images": images})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for group, named in arrays.items():
            _check(group, named)
            with files.replacing(folder / f"{group}.npz") as stream:
                np.savez(stream, allow_pickle=False, **named)
        files.write(folder / META, json.dumps(whole, indent=1, allow_nan=False))
        contents = {file.name: _describe(file) for file in sorted(folder.iterdir())}
        files.write(folder / MARKER, json.dumps({"format": 1, "files": contents}, indent=1))
        files.sync_folder(root)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise WorkError(f"could not save step {step}: {_why(error, root, arrays)}") from error
    return Checkpoint(folder, whole)


def found(root: Path) -> list[Path]:
    """Every checkpoint folder under `root`, complete or not, oldest step first."""
    return sorted((path for path in root.glob(f"{_PREFIX}*") if step_of(path) is not None), key=lambda path: step_of(path) or 0)


def step_of(folder: Path) -> int | None:
    """The step in a checkpoint folder's name; None for any other name."""
    digits = folder.name.removeprefix(_PREFIX)
    return int(digits) if folder.name.startswith(_PREFIX) and digits.isdecimal() else None


def is_complete(folder: Path) -> bool:
    """Whether the marker is there. Whether the files are still what it says, `damage` tells."""
    return (folder / MARKER).exists()


def damage(folder: Path) -> str | None:
    """What keeps a checkpoint from being used, in words; None when every file is there, whole and unchanged."""
    if not is_complete(folder):
        return "was not finished"
    try:
        listed = json.loads((folder / MARKER).read_bytes())["files"]
        for name, told in listed.items():
            size = (folder / name).stat().st_size
            if size != told["bytes"]:
                return f"{name} has {size} bytes instead of {told['bytes']}"
            if _describe(folder / name) != told:
                return f"{name} has changed since it was written"
        load(folder)
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{MARKER} or {META} cannot be read ({type(error).__name__})"
    return None


def load(folder: Path) -> Checkpoint:
    """The checkpoint in `folder`, unchecked; its arrays are read when asked for."""
    meta = json.loads((folder / META).read_bytes())
    if not isinstance(meta, dict) or "step" not in meta or "images" not in meta:
        raise ValueError(f"{META} has no step or no images")
    return Checkpoint(folder, meta)


def latest(root: Path, say: list[str]) -> Checkpoint | None:
    """The newest good checkpoint; None where none was ever completed. What was passed over is added to `say`.

    Raises:
        WorkError: there were complete checkpoints, and every one of them is damaged.
    """
    passed: list[tuple[Path, str]] = []
    for folder in reversed(found(root)):
        reason = damage(folder)
        if reason is None:
            say += [f"checkpoint {path.name} {why}: using {folder.name} instead" for path, why in passed]
            return load(folder)
        passed.append((folder, reason))
    if any(is_complete(folder) for folder, _ in passed):
        listed = "\n".join(f"  {folder.name} {why}" for folder, why in passed)
        raise WorkError(
            f"no checkpoint in {root} can be used:\n{listed}\n"
            "Put a copy of one back, or start again in another folder with --run; the damaged files are left as they are."
        )
    say += [f"checkpoint {folder.name} {why}: nothing to resume from" for folder, why in passed]
    return None


def best(root: Path, metric: str, say: list[str]) -> Checkpoint | None:
    """The good checkpoint with the best value of `metric`, the earlier one of equals; None where none has a value."""
    for folder in _by_merit(found(root), metric):
        reason = damage(folder)
        if reason is None:
            return load(folder)
        say.append(f"the best checkpoint, {folder.name}, {reason}: passing it over")
    return None


def prune(root: Path, newest: int, *, keep_last: int, keep_best: str | None) -> None:
    """Removes what is no longer wanted, once the checkpoint of step `newest` is complete.

    That is: complete ones beyond the `keep_last` newest, except the best by the metric `keep_best`; unfinished ones; and
    those of later steps, which a resumed run passed over as damaged and will write again.
    """
    usable = [folder for folder in found(root) if is_complete(folder) and (step_of(folder) or 0) <= newest]
    kept = set(usable[-keep_last:])
    if keep_best is not None:
        kept.update(_by_merit(usable, keep_best)[:1])
    for folder in found(root):
        if folder not in kept:
            remove(folder)


def remove(folder: Path) -> None:
    """Removes a checkpoint, its marker first: what a kill leaves behind must not count."""
    (folder / MARKER).unlink(missing_ok=True)
    files.sync_folder(folder)
    shutil.rmtree(folder)


def _by_merit(folders: Iterable[Path], metric: str) -> list[Path]:
    """The complete checkpoints that have a value of `metric`, best first."""
    values = {}
    for folder in folders:
        if is_complete(folder):
            try:
                value = load(folder).metrics.get(metric)
            except (OSError, ValueError, AttributeError):
                continue  # `latest` says what is wrong with it; it just cannot be the best
            if isinstance(value, int | float) and value == value:
                values[folder] = -value if HIGHER_IS_BETTER[metric] else value
    return sorted(values, key=lambda folder: values[folder])


def _check(group: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Refuses arrays that the format would change on the way: objects would need pickle, bfloat16 comes back as raw bytes."""
    for name, array in arrays.items():
        dtype = np.asarray(array).dtype
        if dtype.kind not in "biufcSU":
            raise ValueError(f"{group}: {name} has dtype {dtype}, which an .npz does not keep; convert it to float32 first")


def _describe(file: Path) -> dict[str, Any]:
    size, checksum = 0, 0
    with open(file, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            checksum = zlib.crc32(chunk, checksum)
    return {"bytes": size, "crc32": f"{checksum:08x}"}


def _why(error: OSError, root: Path, arrays: Mapping[str, Mapping[str, np.ndarray]]) -> str:
    needed = sum(np.asarray(array).nbytes for named in arrays.values() for array in named.values())
    earlier = [folder.name for folder in found(root) if is_complete(folder)]
    kept = f"{earlier[-1]} is still there" if earlier else "no earlier checkpoint was there"
    try:
        free = f"{shutil.disk_usage(root).free / 1e6:,.1f} MB are free"
    except OSError:
        free = "how much is free cannot be told"
    return (
        f"{error.strerror or error}. The checkpoint needs {needed / 1e6:,.1f} MB and {free} in {root}; {kept}. "
        "Make room and run the same command again: it resumes from there."
    )
