"""One training session: opens everything a run needs, in the order that lets bad input fail first, and hands it to the loop."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from zlib import crc32

import keras
import numpy as np

from unetkit import build, evaluate, files, logs, pictures, runs
from unetkit import recipe as recipes
from unetkit.compilations import Compilations
from unetkit.data import Share, open_dataset
from unetkit.errors import UserError, WorkError
from unetkit.progress import Line, Silent
from unetkit.recipe.schema import Recipe
from unetkit.runs.names import CURVES, MODEL
from unetkit.train import loop
from unetkit.train.callbacks import Callbacks
from unetkit.train.devices import open_devices
from unetkit.train.engines.base import STEPS
from unetkit.train.hosts import weighted_mean
from unetkit.train.plan import make_plan
from unetkit.train.weights import read_weights

WAIT_SHARE_TOLD = 0.2  # above this share of the time, what to do about waiting for input is said


class Advisor(Protocol):
    """Who settles the batch and micro-batches of a recipe before anything is built; `notes` belong into the log."""

    notes: list[str]

    def prepare(self, recipe: Recipe, images: int, kind: str, replicas: int) -> Recipe: ...


@dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes:
        path: the run folder.
        status: "done", "stopped" (by a signal; the same call goes on) or "nothing to do" (it was done before).
        exit_status: 0, or 130/143 after a signal.
        step, images: how far it got.
        metrics: the last validation's `l1`, `psnr`, `ssim` (of signals `l1`, `psnr`, `snr`).
        host: which of several hosts this is; 0 wrote the folder.
    """

    path: Path
    status: str
    exit_status: int
    step: int
    images: int
    metrics: dict[str, float]
    host: int = 0


class Session:
    """See `unetkit.fit`, whose arguments these are."""

    def __init__(
        self,
        recipe: Recipe,
        path: Path,
        callbacks: Sequence[keras.callbacks.Callback],
        init_from: str | Path | None,
        progress: bool,
        advisor: Advisor,
        no_recompile: bool = False,
        send: Callable[[bool], None] | None = None,
    ) -> None:
        self.send = send or (lambda last: None)  # after each save, and (last=True) when the run is done: where the folder is a copy
        self.path, self.init_from, self.advisor = path, init_from, advisor
        logs.require_packages(recipe.logging)
        self.given_callbacks = callbacks
        self.compilations, self.no_recompile = Compilations(STEPS), no_recompile
        self.devices = open_devices(recipe.hardware, recipe.backend)
        self.hosts = self.devices.hosts
        with self.hosts.together():
            self._prepare(recipe, progress)

    def _prepare(self, recipe: Recipe, progress: bool) -> None:
        self.dataset = open_dataset(recipe.data, recipe.seed)
        sides = {"training": self.dataset.train.names, "validation": self.dataset.validation.names}
        seen = {side: f"{len(names)} images ({crc32(chr(10).join(names).encode()):08x})" for side, names in sides.items()}
        self.hosts.require_same("data", seen)
        self.recipe = recipe = self._advised(recipe)
        self.plan = make_plan(recipe, len(self.dataset.train))
        if len(self.dataset.train) < recipe.training.batch:
            raise UserError(
                f"training.batch: {recipe.training.batch} is more than the {len(self.dataset.train)} training images there are."
            )
        self.progress = Line(self.plan.images) if progress and self.hosts.first else Silent()
        self.metrics: dict[str, float] = {}
        self.signal = 0

    def _advised(self, recipe: Recipe) -> Recipe:
        """The advisor asks a compiler, or looks at the memory of this machine: the first host does, for all."""

        def prepare() -> Recipe:
            return self.advisor.prepare(recipe, len(self.dataset.train), self.devices.kind, self.devices.replicas)

        if self.hosts.count == 1:
            return prepare()
        return recipes.read(self.hosts.agree(lambda: recipes.to_yaml(prepare())))

    def run(self) -> Result:
        """Trains until the end, a signal or a callback stops it."""
        with self.hosts.together(), contextlib.ExitStack() as stack:
            # A run that exists is opened first: that it is done, in use or of another recipe is known without building
            # anything. A new one is made last, so that bad input leaves nothing behind.
            folder = stack.enter_context(self._open()) if self.hosts.agree(lambda: runs.is_run(self.path)) else None
            if folder is not None and folder.status == "done":
                return self._already_done(folder)
            self._build()
            self.folder = folder or stack.enter_context(self._open())
            stack.enter_context(self.compilations)
            self.logs = stack.enter_context(self._open_logs())
            return self._train()

    def _open(self) -> runs.RunFolder | runs.Follower:
        opened: list[runs.RunFolder] = []

        def open_and_tell() -> dict:
            opened.append(runs.RunFolder.open(self.path, recipes.to_yaml(self.recipe), images=self.plan.images))
            return opened[0].told()

        told = self.hosts.agree(open_and_tell)
        return opened[0] if opened else runs.Follower.of(self.path, told)

    def _open_logs(self) -> logs.Logs:
        if isinstance(self.folder, runs.Follower):  # only the first of several hosts writes
            return logs.Logs([], self.progress.note)
        facts = {"device": self.devices.kind, "replicas": self.devices.replicas, "folder": self.path.name}
        return logs.open_logs(self.recipe, self.folder, facts, self.progress.note)

    def _build(self) -> None:
        self.engine = build.engine(self.recipe, self.devices, self.plan)
        source = self.init_from
        if source is not None:
            self.hosts.agree(lambda: self._initialize(read_weights(source)))
        self.callbacks = Callbacks([*build.callbacks(self.recipe), *self.given_callbacks], self.engine, self.plan, self.hosts)
        self.shown = self._first_pairs(self.recipe.logging.samples.count if self.hosts.first else 0)

    def _train(self) -> Result:
        facts = {"device": self.devices.kind, "replicas": self.devices.replicas, "backend": self.recipe.backend}
        self.folder.note_environment(**facts, hosts=self.hosts.count)
        done, meta = self._take_over()
        self.engine.follow_first()
        self.progress.note(f"{self.path}: {self._what_is_trained()}; {self.devices.note}")
        for message in [*self.advisor.notes, *self._scaled_rate(), *self.folder.messages, *self.dataset.report.warnings()]:
            self.progress.note(message)
        rows = self.hosts.rows(self.plan.batch, self.recipe.training.accumulate) if self.hosts.count > 1 else None
        batches = self.dataset.train.batches(self.plan.batch, start=done * self.plan.batch, rows=rows)
        started = time.monotonic()
        try:
            with runs.StopSignals() as stop:

                def stop_requested() -> bool:
                    self.signal = self.hosts.most(stop.exit_status)  # one host's signal stops them all, after the same step
                    return self.signal > 0

                hooks = loop.Hooks(self._record, self._validate, self._sample, self._save, stop_requested, self._check_compilations)
                ended = loop.train(self.engine, batches, self.plan, hooks, self.callbacks, self.progress, done=done, meta=meta)
        finally:
            batches.close()
            self.progress.close()
        step, images = ended.step, ended.step * self.plan.batch
        if ended.input_wait_share > WAIT_SHARE_TOLD:
            share, remedy = ended.input_wait_share, self.dataset.train.remedy()
            self.progress.note(f"{share:.0%} of the time the device waited for input: {remedy}")
        self.progress.note(f"compiled: {self.compilations}")
        if self.signal and step < self.plan.steps and not self.callbacks.stopped:
            self.progress.note(f"stopped after {images:,} images, saved. The same command goes on from here.")
            self.logs.status = self.signal
            return Result(self.path, "stopped", self.signal, step, images, self.metrics, self.hosts.index)
        if self.hosts.first:
            self._export()
        seconds = time.monotonic() - started
        self.folder.finish({"step": step, "images": images, "metrics": self.metrics, "seconds": round(seconds, 1)})
        if isinstance(self.folder, runs.RunFolder):
            self.send(True)
            last = self.folder.latest()
            self.logs.finish(last.path if last else None)
        self.hosts.everyones(None)  # the others wait for what the first one writes: the runtime's own farewell has a time limit
        return Result(self.path, "done", 0, step, images, self.metrics, self.hosts.index)

    def _take_over(self) -> tuple[int, dict]:
        start = self.folder.start
        if start is None:
            return 0, {}
        if self.init_from is not None:
            self.progress.note(f"--init-from {self.init_from}: not used, {self.path} goes on from its own step {start.step}")
        self.engine.load({group: start.arrays(group) for group in start.groups})
        self.metrics = dict(start.metrics)
        self.progress.note(f"resuming at image {start.images:,} (step {start.step})")
        return start.step, dict(start.meta)

    def _initialize(self, weights: dict[str, np.ndarray]) -> None:
        own, beside = self.engine.variables()["weights"], tuple(f"{role}/" for role in build.OTHER_ROLES)
        weights = {name: value for name, value in weights.items() if name in own or not name.startswith(beside)}
        if not any(name.startswith(beside) for name in weights):  # of a run without a discriminator: ours begins anew
            weights |= {name: keras.ops.convert_to_numpy(v.value) for name, v in own.items() if name.startswith(beside)}
        state = {"weights": weights}
        if self.engine.average:
            names = self.engine.variables()["ema"]
            state["ema"] = {name: value for name, value in weights.items() if name in names}
        self.engine.load(state)

    def _validate(self, step: int) -> dict[str, float]:
        if len(self.dataset.validation):
            share = self.dataset.validation.share(self.hosts.index, self.hosts.count)
            try:
                found = self._scored(share) if len(share) else {}
            except evaluate.NotFinite:
                found = {"l1": math.nan}  # told to the other hosts before any of them ends
            everyones = self.hosts.everyones([found, len(share)])
            if any(math.isnan(value) for one, _ in everyones for value in one.values()):
                raise WorkError(f"the network's output is not finite after step {step}, though its loss was. {loop.STOPPED}")
            self.metrics = weighted_mean(everyones)
        return self.metrics

    def _scored(self, share: Share) -> dict[str, float]:
        """What a validation says of some of its samples; noise goes by their numbers in the whole."""
        if self.engine.objective.scored_by_loss:
            return evaluate.score_loss(
                lambda arrays, n: self.engine.measure(arrays, [share.items[i] for i in n]), share, self._validation_batch()
            )
        return evaluate.score(self.engine.predict, share, self._validation_batch())

    def _check_compilations(self) -> None:
        if self.no_recompile:
            self.compilations.require_one_each()

    def _predict(self, shown: dict[str, np.ndarray]) -> np.ndarray:
        """The objective's pictures by batches of the validation's size, the last filled up: no program of another shape."""
        rows, outputs, count = self._validation_batch(), [], len(shown["input"])
        for start in range(0, count, rows):
            taken = np.minimum(np.arange(start, start + rows), count - 1)
            filled = {name: value[taken] for name, value in shown.items()}
            outputs.append(self.engine.predict(filled, numbers=taken)[: count - start])
        return np.concatenate(outputs)

    def _record(self, line: dict) -> None:
        self.folder.log.write(line)
        self.logs.record(runs.plain(line))

    def _sample(self, step: int) -> None:
        if isinstance(self.folder, runs.Follower):
            return
        images = step * self.plan.batch
        if self.shown:
            inputs, targets = self.shown["input"], self.shown["target"]
            outputs = self._predict(self.shown)
            path = self.folder.samples_path / f"images_{images:09d}.png"
            draw = pictures.grid if inputs.ndim == 4 else pictures.signals
            if "input" in self.engine.objective.batch_shapes():
                draw(list(zip(inputs, outputs, targets, strict=True)), ("input", "output", "truth"), path)
            else:
                draw([(output,) for output in outputs], ("sample",), path)
            self.logs.picture(step, path)
        pictures.curves(self.folder.stats(), self.path / CURVES)

    def _save(self, step: int, meta: dict) -> None:
        if isinstance(self.folder, runs.Follower):
            return
        state = {group: arrays for group, arrays in self.engine.state().items() if arrays}  # no average, no optimizer slots: no file
        self.folder.save(step, step * self.plan.batch, state, meta)
        self.send(False)

    def _export(self) -> None:
        """Writes the network with the weights that make its pictures (the average, if there is one) as a plain Keras file."""
        state = self.engine.state()
        network = build.network(self.recipe)
        build.assign_network(network, build.main_weights(state["weights"] | state["ema"]))
        temporary = files.partial_name(self.path / MODEL)
        network.save(temporary)
        temporary.replace(self.path / MODEL)
        files.sync_folder(self.path)

    def _first_pairs(self, count: int) -> dict[str, np.ndarray]:
        split = self.dataset.validation if len(self.dataset.validation) else self.dataset.train
        if not count:
            return {}
        batch, real = next(iter(split.every(min(count, len(split)))))
        return {name: value[:real] for name, value in batch.items()}

    def _validation_batch(self) -> int:
        """Images that this host predicts at once: as many as in training, shared evenly by its devices."""
        own = self.devices.replicas // self.hosts.count
        rows = max(own, self.plan.batch // self.recipe.training.accumulate // self.hosts.count)
        return rows - rows % own

    def _what_is_trained(self) -> str:
        network = self.engine.objective.networks[self.engine.objective.main]
        what = "images" if self.recipe.data.source.rank == 2 else "windows"
        return (
            f"{len(self.dataset.train):,} training and {len(self.dataset.validation):,} validation {what}, "
            f"{network.count_params():,} weights, {self.recipe.backend}"
        )

    def _scaled_rate(self) -> list[str]:
        training, rate = self.recipe.training, build.learning_rate(self.recipe)
        if rate == self.recipe.optimizer.learning_rate:
            return []
        given = self.recipe.optimizer.learning_rate
        return [f"learning rate {rate:.4g}: {given:.4g} scaled ({training.lr_scaling}) from batch {training.lr_batch} to {training.batch}"]

    def _already_done(self, folder: runs.RunFolder | runs.Follower) -> Result:
        done = folder.done or {}
        if self.hosts.first:
            print(f"{self.path} is done: {done['images']:,} images. Nothing to do; a longer training.images would go on.", file=sys.stderr)
        return Result(self.path, "nothing to do", 0, done["step"], done["images"], dict(done.get("metrics") or {}), self.hosts.index)
