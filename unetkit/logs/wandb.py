"""Weights & Biases: a run there for each run folder. Its own Keras callbacks need TensorFlow, so this is made of `init` and `log`.

The run's id and the last step that was logged stay in `wandb.json` of the run folder, so that a resumed run goes on under the
same id, and steps that a kill made the trainer do again are not logged again: W&B's steps never go backwards.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from unetkit.logs.base import Log
from unetkit.recipe import to_dict
from unetkit.recipe.schema import Recipe
from unetkit.runs import RunFolder, names
from unetkit.runs.changes import flat

INIT_SECONDS = 60.0  # longest wait for a server that does not answer, before the run goes offline


class WandbLog(Log):
    """One W&B run: config, numbers by step, sample pictures, the analysis as a table, the last checkpoint as an artefact.

    Nobody is ever asked for a key: without credentials (`WANDB_API_KEY`, or what `wandb login` has kept) it says so and writes an
    offline run, as it does where the server cannot be reached. `WANDB_MODE` outranks all of it.
    """

    title = "W&B"

    def __init__(self, recipe: Recipe, folder: RunFolder, facts: Mapping[str, Any], say: Any) -> None:
        self._folder, self._section = folder, recipe.logging.wandb
        kept = _kept(folder)
        self._id, self._from = kept.get("id") or secrets.token_hex(4), int(kept.get("step", -1))
        self._keep(self._from)
        config = {**to_dict(recipe), "run": dict(facts)}
        mode = os.environ.get("WANDB_MODE") or ("offline" if self._section.mode == "offline" else "online")
        if mode == "online" and not wandb.login(prompt=False, verify=False):
            say("W&B: no credentials (WANDB_API_KEY, or `wandb login` once), so it goes offline")
            mode = "offline"
        try:
            self._run = self._start(mode, recipe.name, config)
        except wandb.Error as error:
            if mode != "online":
                raise
            say(f"W&B: {str(error).splitlines()[0]}; it goes offline")
            self._run = self._start("offline", recipe.name, config)
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")
        if self._run.offline:
            say(f"W&B: offline; upload it later: wandb sync --id {self._id} {folder.path / 'wandb'}/offline-run-*-{self._id}")
        elif self._run.url:
            say(f"W&B: {self._run.url}")

    def record(self, line: Mapping[str, Any]) -> None:
        if line["step"] > self._from:
            self._run.log({name: value for name, value in line.items() if value is not None}, step=line["step"])
            self._keep(line["step"])

    def picture(self, step: int, path: Path) -> None:
        if step > self._from:
            self._run.log({"step": step, "samples": wandb.Image(str(path), caption=path.stem)}, step=step)
            self._keep(step)

    def finish(self, checkpoint: Path | None) -> None:
        table = _analysis(self._folder.path / names.ANALYSIS)
        if table is not None:
            self._run.log({"analysis": table})
        if checkpoint is not None and self._section.checkpoint:
            artifact = wandb.Artifact(f"{self._id}-checkpoint", type="model", metadata={"step": checkpoint.name})
            for file in sorted(checkpoint.iterdir()):
                artifact.add_file(str(file), policy="immutable", skip_cache=True)  # not copied: a finished run keeps its last checkpoint
            self._run.log_artifact(artifact)

    def close(self, status: int) -> None:
        self._run.finish(exit_code=status)

    def _start(self, mode: str, name: str, config: dict[str, Any]) -> wandb.Run:
        section = self._section
        return wandb.init(
            project=section.project,
            entity=section.entity,
            group=section.group,
            tags=list(section.tags),
            name=name,
            id=self._id,
            resume="allow",
            dir=str(self._folder.path),
            mode=mode,
            config=config,
            allow_val_change=True,
            settings=wandb.Settings(silent=True, console="off", disable_code=True, disable_git=True, init_timeout=INIT_SECONDS),
        )

    def _keep(self, step: int) -> None:
        self._folder.write_json(names.WANDB, {"id": self._id, "project": self._section.project, "step": step})


def _kept(folder: RunFolder) -> dict[str, Any]:
    """What wandb.json says; nothing where the run starts anew, for that is another run."""
    if folder.start is None:
        return {}
    try:
        content = json.loads((folder.path / names.WANDB).read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _analysis(path: Path) -> wandb.Table | None:
    """analysis.json as a table, a row for each configuration that was asked about; None where there is none."""
    try:
        parts = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    tune = parts.get("tune") or {}
    asked = [("inspect", parts.get("inspect")), ("choice", tune.get("choice")), *(("candidate", c) for c in tune.get("candidates", ()))]
    rows = [{"asked": what, **{key: v for key, v in flat("", found) if isinstance(v, str | int | float)}} for what, found in asked if found]
    if not rows:
        return None
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return wandb.Table(columns=columns, data=[[row.get(key) for key in columns] for row in rows])
