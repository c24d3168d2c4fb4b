"""A run folder to write to: made or resumed, one writer at a time, complete at every instant."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np

from unetkit import files
from unetkit import recipe as recipes
from unetkit.errors import UserError, WorkError
from unetkit.runs import checkpoints, names
from unetkit.runs.changes import ABSENT, LENGTH_KEYS, Change, compare, free_name, refuse_forbidden
from unetkit.runs.checkpoints import Checkpoint
from unetkit.runs.environment import environment
from unetkit.runs.lock import Lock
from unetkit.runs.run import Run, is_run, parse_recipe, read_json
from unetkit.runs.stats import Stats, plain

FORMAT = "unetkit run folder 1"

# What a kill can leave of a folder that was just being made; such a folder is still new.
_FIRST_FILES = {names.LOCK, names.HISTORY}

Status = Literal["new", "resume", "done"]


class RunFolder(Run):
    """A run folder to write to, by one process at a time. Made by `open`, given back by `close` or a `with` block.

    `status` says what there is to do: "new", "resume" (from `start`), or "done". `changes` are the recipe's keys that
    differ from the last time. `log` is stats.jsonl.
    """

    def __init__(self, path: Path, recipe_text: str, lock: Lock) -> None:
        super().__init__(path)
        self.status: Status = "new"
        self.start: Checkpoint | None = None
        self.changes: list[Change] = []
        self.log = Stats(path / names.STATS)
        self._lock = lock
        self._wanted_text = recipe_text
        self._wanted = parse_recipe(recipe_text, "the recipe")

    @classmethod
    def open(cls, path: str | Path, recipe_text: str, *, images: int | None = None) -> Self:
        """Makes the folder, or opens the one that is there and decides whether to resume.

        Args:
            path: the folder.
            recipe_text: the resolved recipe, as YAML.
            images: length of the run in images, for a caller that has worked it out from the recipe's epochs.

        Raises:
            UserError: the folder holds other things; another process writes to it; the recipe differs in what is
                computed, or is shorter than what has been trained.
            WorkError: the folder has checkpoints and all are damaged, or it cannot be written.
        """
        folder = Path(path)
        _require_usable(folder)
        with _telling(f"cannot write to the run folder {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            run = cls(folder, recipe_text, Lock(folder / names.LOCK))
            try:
                run._lock.acquire()
                run._begin(images)
            except BaseException:
                run.close()
                raise
        return run

    def save(self, step: int, images: int, arrays: Mapping[str, Mapping[str, np.ndarray]], meta: Mapping[str, Any]) -> Checkpoint:
        """Saves a checkpoint, then removes the ones that are no longer wanted. A kill at any instant leaves a good one.

        Where a good checkpoint of this step is there already, it stays as it is.

        Args:
            step: optimizer steps done. Write the step's lines to `log` before.
            images: training images seen.
            arrays: group -> name -> array, as {"weights": {"head/kernel": ...}, "ema": ..., "optimizer": ...}.
            meta: plain values to keep with it; `meta["metrics"]` ({"psnr": ...}) decides which checkpoint is best.

        Raises:
            WorkError: it could not be written, as on a full disk. Nothing that was there is lost.
        """
        with _telling(f"could not save step {step}"):
            self.log.sync()
            checkpoint = checkpoints.write(self.checkpoints_path, step, images, arrays, meta)
            self._prune(step)
        return checkpoint

    def note_environment(self, **facts: Any) -> None:
        """Writes environment.json: the versions, and what only the running program knows (backend, device, replicas).

        What differs from the last start goes to history.jsonl and to `messages`.
        """
        before = read_json(self.path / names.ENVIRONMENT) or {}
        after = plain({**environment(), **facts})
        self.write_json(names.ENVIRONMENT, after)
        changed = {key: [before[key], value] for key, value in after.items() if key in before and before[key] != value}
        if changed:
            self._remember("environment", environment=changed)
            self.messages += [f"since the last start {key} changed: {old} -> {new}" for key, (old, new) in changed.items()]

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Writes one of the folder's JSON files in one piece."""
        with _telling(f"cannot write {self.path / name}"):
            files.write(self.path / name, json.dumps(plain(content), indent=1, allow_nan=False) + "\n")

    def finish(self, result: Mapping[str, Any]) -> None:
        """Writes DONE, the last file of a run. `result` holds its `step` and `images`, and what else should be told."""
        if not {"step", "images"} <= result.keys():
            raise ValueError(f"the result of a run needs step and images; got {', '.join(result) or 'nothing'}")
        with _telling(f"could not finish {self.path}"):
            self.log.sync()
            self._prune(result["step"])  # a kill may have come between the last save and its pruning
        self.write_json(names.DONE, {**result, "time": _now()})

    def told(self) -> dict[str, Any]:
        """What there is to do, for hosts that do not read the folder: see `Follower`."""
        at = self.start
        start = at and {"step": at.step, "images": at.images, "metrics": dict(at.metrics), "meta": dict(at.meta)}
        return {"status": self.status, "done": self.done, "start": start}

    def close(self) -> None:
        """Closes the log and lets other processes in."""
        self.log.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _begin(self, images: int | None) -> None:
        if self._lock.shared:
            self.messages.append(f"the file system of {self.path} has no locks: see to it that no second process writes to it")
        if is_run(self.path):
            self.changes = self._compare()
            self.start = self.latest()
        if self.start is not None:
            refuse_forbidden(self.changes, self.path)
            self.status = self._what_is_left(self.start, images)
        if self.status == "done":
            return
        for folder in (self.path, self.samples_path):
            for stray in folder.glob(f"{files.PARTIAL}*"):
                stray.unlink()
        self.log.cut(self.start.step if self.start else -1)
        (self.path / names.DONE).unlink(missing_ok=True)
        if self.start is not None:
            self.messages += [f"changed since the last start: {change}" for change in self.changes]
        self._remember("resumed" if self.start else "created", recipe={c.key: [c.before, c.after] for c in self.changes})
        files.write(self.path / names.RECIPE, self._wanted_text)
        self.samples_path.mkdir(exist_ok=True)

    def _compare(self) -> list[Change]:
        """Keys that the run's recipe lacks, as made by an older version, count with their defaults."""
        changes = compare(self.recipe, self._wanted)
        if any(change.before == ABSENT for change in changes):
            changes = compare(recipes.to_dict(recipes.read(self.recipe)), self._wanted)
        return changes

    def _what_is_left(self, start: Checkpoint, images: int | None) -> Status:
        """Looks at the length only when it was changed: rounded up to whole steps, a run ends a little beyond it."""
        if not any(change.key in LENGTH_KEYS for change in self.changes):
            return "resume" if self.done is None else "done"
        training = self._wanted["training"]
        length = images or training["images"]
        if length is not None and math.ceil(length / training["batch"]) < start.step:
            raise UserError(
                f"{self.path} has been trained on {start.images:,} images, more than the {length:,} asked for. "
                f"Ask for at least {start.images:,} to resume it, or train a shorter one with --run {free_name(self.path)}"
            )
        return "resume"

    def _prune(self, newest: int) -> None:
        policy = self._wanted["checkpoint"]
        best_by = policy["metric"] if policy["keep_best"] else None
        checkpoints.prune(self.checkpoints_path, newest, keep_last=policy["keep_last"], keep_best=best_by)

    def _remember(self, event: str, **facts: Any) -> None:
        with Stats(self.path / names.HISTORY) as history:
            history.write({"step": self.start.step if self.start else 0, "event": event, "time": _now(), "format": FORMAT, **facts})


def _require_usable(folder: Path) -> None:
    """Raises UserError unless `folder` is a run's, or empty, or not there."""
    if folder.is_file():
        raise UserError(f"the run folder {folder} is a file. Name another one: --run {free_name(folder)}")
    if not folder.is_dir() or is_run(folder):
        return
    others = sorted(entry.name for entry in folder.iterdir() if entry.name not in _FIRST_FILES and not files.is_partial(entry.name))
    if names.CHECKPOINTS in others and (folder / names.HISTORY).exists():
        raise UserError(f"{folder} is a run folder without its {names.RECIPE}. Put the file back to resume, or name another with --run")
    if others:
        listed = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        raise UserError(f"{folder} is not a run folder and holds other things ({listed}). Name a new folder: --run {free_name(folder)}")


@contextlib.contextmanager
def _telling(what: str) -> Iterator[None]:
    """Turns a failure of the disk into a message that says what was being done."""
    try:
        yield
    except OSError as error:
        raise WorkError(f"{what}: {error.strerror or error}. The checkpoints that were there are untouched.") from error


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
