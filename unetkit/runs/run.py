"""A run folder to read from, and the ways of not finding one."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Any

import yaml

from unetkit import buckets
from unetkit.errors import UserError
from unetkit.runs import checkpoints, names
from unetkit.runs.checkpoints import Checkpoint
from unetkit.runs.stats import read_stats

# The folder that `train` puts runs into when it is not told otherwise.
RUNS = Path("runs")


class Run:
    """A run folder to read from. Every path in it is relative, so the folder may be moved and copied.

    `messages` collects what the caller should tell the user, as a damaged checkpoint that was passed over.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.messages: list[str] = []

    @property
    def recipe_text(self) -> str:
        """The resolved recipe, as YAML."""
        return (self.path / names.RECIPE).read_text(encoding="utf-8")

    @property
    def recipe(self) -> dict[str, Any]:
        """The resolved recipe as plain dictionaries.

        Raises:
            UserError: recipe.yaml is damaged.
        """
        return parse_recipe(self.recipe_text, f"{self.path / names.RECIPE}")

    @property
    def done(self) -> dict[str, Any] | None:
        """What `finish` wrote, as {step, images, ...}; None when the run has not finished."""
        return read_json(self.path / names.DONE)

    @property
    def checkpoints_path(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / names.CHECKPOINTS

    @property
    def samples_path(self) -> Path:
        """The folder of the sample pictures."""
        return self.path / names.SAMPLES

    def stats(self) -> list[dict[str, Any]]:
        """The lines of stats.jsonl, oldest first."""
        return read_stats(self.path / names.STATS)

    def latest(self) -> Checkpoint | None:
        """The newest good checkpoint; None where none was ever completed.

        Raises:
            WorkError: there are checkpoints and none is good.
        """
        return checkpoints.latest(self.checkpoints_path, self.messages)

    def best(self, metric: str | None = None) -> Checkpoint | None:
        """The good checkpoint with the best validation metric (None: the recipe's), the earlier one of equals."""
        return checkpoints.best(self.checkpoints_path, metric or self.recipe["checkpoint"]["metric"], self.messages)


def read(path: str | Path) -> Run:
    """Opens a run folder without changing anything in it. One in a bucket (gs://...) is copied here first.

    Raises:
        UserError: there is no run folder at `path`; the message names the nearest one.
    """
    folder = buckets.fetch(str(path)) if buckets.is_bucket(path) else Path(path)
    if not is_run(folder):
        raise UserError(_not_a_run(folder))
    run = Run(folder)
    if run.done is None:
        complete = [checkpoint.name for checkpoint in checkpoints.found(run.checkpoints_path) if checkpoints.is_complete(checkpoint)]
        state = f"its newest checkpoint is {complete[-1]}" if complete else "it has no checkpoint yet"
        run.messages.append(f"{folder} has not finished; {state}")
    return run


def is_run(folder: Path) -> bool:
    """Whether `folder` was made by a training run."""
    return (folder / names.RECIPE).is_file() and (folder / names.HISTORY).is_file()


def parse_recipe(text: str, where: str) -> dict[str, Any]:
    """A resolved recipe as plain dictionaries.

    Raises:
        UserError: it is not YAML, or not a recipe.
    """
    try:
        recipe = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{where} is damaged: {error}. Put a copy of the recipe back, or start a new run.") from error
    if not isinstance(recipe, dict):
        raise UserError(f"{where} is damaged: expected a recipe, got {text[:40]!r}. Put a copy of the recipe back, or start a new run.")
    return recipe


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file; None where there is no file, or one that a failing disk has spoilt."""
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _not_a_run(folder: Path) -> str:
    inside = next((parent for parent in folder.parents if is_run(parent)), None)
    if inside is not None:
        return f"{folder} is a part of the run folder {inside}: name that"
    if folder.is_file():
        return f"{folder} is a file; expected the folder of a run, as {RUNS}/NAME{_nearest(folder.with_suffix(''))}"
    if folder.is_dir():
        return f"{folder} is a folder, but not of a run: it has no {names.RECIPE} and {names.HISTORY}{_nearest(folder)}"
    return f"there is no run folder {folder}{_nearest(folder)}"


def _nearest(folder: Path) -> str:
    """The runs that may have been meant: in `folder`, beside it, or among the default runs."""
    places = dict.fromkeys((folder, folder.parent, RUNS))
    runs = {str(run): run.name for place in places if place.is_dir() for run in sorted(place.iterdir()) if is_run(run)}
    close = difflib.get_close_matches(folder.name, list(dict.fromkeys(runs.values())), n=3, cutoff=0.5)
    meant = [path for path, name in runs.items() if name in close] or list(runs)[:5]
    if not meant:
        return ". No run folder was found near it; `unetkit train RECIPE` makes one"
    return f". Did you mean {' or '.join(meant)}?" if close else f". Run folders near it: {', '.join(meant)}"
