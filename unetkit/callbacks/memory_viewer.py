"""The TPU's memory viewer beside any `fit`."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import keras

from unetkit import __version__
from unetkit.callbacks.analysis import AnalysisFile
from unetkit.callbacks.beside import Beside
from unetkit.errors import LimitError, UnetkitError, UserError
from unetkit.recipe import Recipe, to_yaml
from unetkit.tpu import analyse, ask, executable, limits, lower, model, progress, serial
from unetkit.tpu.answer import Answer
from unetkit.tpu.chips import chip as find_chip
from unetkit.tpu.environment import CompilerMissing, find_interpreter

ATTACHED = "TPU_ACCELERATOR_TYPE"
"""Set on a TPU machine to what it is, as `v2-8`."""


class MemoryViewer(keras.callbacks.Callback):
    """Asks, when training begins, what the TPU compiler says about the step's memory; writes it, and warns or refuses.

    ```python
    from unetkit.callbacks import MemoryViewer

    viewer = MemoryViewer(chip="v2-8", max_padding=2.0)
    model.fit(images, targets, batch_size=128, callbacks=[viewer])
    print(viewer.answer.hbm.peak_bytes, viewer.answer.padding.ratio)
    ```

    The question is asked beside the training, in a child process; only a refusal is worth waiting for. `analysis.json` holds
    the answer under `inspect`, and a later `fit` with the same model, batch and chip reads it in place of asking. Without the compiler the
    arithmetic model answers. On an attached TPU under JAX the memory is that of the executable itself.

    Args:
        chip: accelerator, as v2-8 (None: the attached one).
        max_padding: highest ratio of padded to unpadded peak bytes (1.0 = none).
        max_hbm: highest share of the usable HBM.
        refuse: wait for the answer before the first step, and raise where a limit is exceeded or the step does not fit.
            False: warn.
        folder: where `analysis.json` goes.
        batch: global batch (None: that of the running `fit`).
        recipe: ask about this recipe's own training step; `unetkit.fit` passes it.

    Raises:
        LimitError: with `refuse`, when training begins.
        UserError: no chip or batch can be told; when training begins.
    """

    def __init__(
        self,
        chip: str | None = None,
        *,
        max_padding: float | None = None,
        max_hbm: float | None = None,
        refuse: bool = False,
        folder: str | os.PathLike[str] = ".",
        batch: int | None = None,
        recipe: Recipe | None = None,
    ) -> None:
        super().__init__()
        self.chip, self.max_padding, self.max_hbm, self.refuse = chip, max_padding, max_hbm, refuse
        self.folder, self.batch, self.recipe = Path(folder), batch, recipe
        self.answer: Answer | None = None
        self._asking: Beside[Answer] | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        question = _Question(self)
        known = question.written()
        if known is not None:
            self._told(known)
        elif self.refuse:
            with progress.Line(question.name) as show:
                self._told(question.written(question.ask(show)))
        elif question.by_model:  # in this thread, since it reads the model's layers
            try:
                self._told(question.written(question.ask(progress.quiet)))
            except UnetkitError as error:
                warnings.warn(f"MemoryViewer: no answer: {error}", stacklevel=2)
        else:
            self._asking = Beside(lambda show: question.written(question.ask(show)))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._asking and self._asking.ended:
            self._take()

    def on_train_end(self, logs: Any = None) -> None:
        if self._asking:
            self._asking.wait()
            self._take()

    def _take(self) -> None:
        asking, self._asking = self._asking, None
        if asking.error:
            warnings.warn(f"MemoryViewer: no answer: {asking.error}", stacklevel=3)
        elif asking.answer:
            self._told(asking.answer)

    def _told(self, answer: Answer) -> None:
        self.answer = answer
        broken = limits.broken(answer, self.max_padding, self.max_hbm)
        if broken and self.refuse:
            raise LimitError("; ".join(broken))
        for line in broken:
            warnings.warn(f"MemoryViewer: {line}", stacklevel=3)


class _Question:
    """What is asked, everything that needs the model read in the thread that trains it."""

    def __init__(self, viewer: MemoryViewer) -> None:
        self.where = find_chip(attached_chip(viewer.chip) or _no_chip())
        self.recipe, self.network = viewer.recipe, viewer.model
        self.name = self.recipe.name if self.recipe else self.network.name
        self.file = AnalysisFile(viewer.folder)
        self.batch = viewer.batch or (self.recipe.training.batch if self.recipe else running_batch("MemoryViewer"))
        self.described = None if self.recipe else serial.describe(self.network)
        try:
            find_interpreter()
            self.by_model = False
        except CompilerMissing:
            self.by_model = True
        asked = [to_yaml(self.recipe) if self.recipe else self.described, self.where.name, self.batch, __version__, self.by_model]
        self.key = hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()[:20]

    def written(self, answer: Answer | None = None) -> Answer | None:
        """Writes an answer, or reads the one to this very question that is there already."""
        if answer is not None:
            self.file.write("inspect", {**answer.to_dict(), "question": self.key})
            return answer
        plain = self.file.read("inspect")
        try:
            return Answer.from_dict(plain) if plain and plain.pop("question", None) == self.key else None
        except TypeError:
            return None  # another version's

    def ask(self, show: progress.Show) -> Answer:
        answer = self._model() if self.by_model else self._compiler(show)
        if not executable.attached():
            return answer
        if self.recipe:
            return executable.replace(answer, executable.of_recipe(self.recipe, self.network, self.network.optimizer))
        data = serial.batch_of(self.described, self.network, self.batch)
        return executable.replace(answer, executable.of_keras(self.network, data))

    def _model(self) -> Answer:
        if self.recipe:
            return model.estimate_recipe(self.recipe, self.where.name, [self.batch])[0]
        return model.estimate(self.network, chip_name=self.where.name, batch=self.batch, optimizer=self.network.optimizer)

    def _compiler(self, show: progress.Show) -> Answer:
        if self.recipe:
            (lowered,) = lower.lower_recipe(self.recipe, self.where, [self.batch], self.recipe.tpu.program, show)
        else:
            lowered = lower.lower_keras(self.described, self.where, self.batch, show)
        record, _ = ask.compile_program(lowered.program, self.where, stage="memory", show=show)
        return analyse.answer(lowered, record, self.where)


def attached_chip(named: str | None) -> str | None:
    """The accelerator that was named, or the attached one."""
    return named or os.environ.get(ATTACHED) or None


def _no_chip() -> str:
    raise UserError(f"MemoryViewer: no TPU is attached ({ATTACHED} is not set); name the accelerator to ask about: chip='v2-8'")


def running_batch(asking: str) -> int:
    """The batch of the `fit` that called us, which Keras keeps from its callbacks."""
    frame = sys._getframe()
    while frame := frame.f_back:
        adapter = getattr(frame.f_locals.get("epoch_iterator"), "data_adapter", None)
        if size := getattr(adapter, "batch_size", None):
            return int(size)
    raise UserError(f"{asking}: the batch cannot be told from the data of this fit; pass it: {asking}(batch=128)")
