"""The one callback of the TPU rooms: it chooses the batch before the training, and looks at the memory when it begins."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any, Literal

import keras

from unetkit import recipe as recipes
from unetkit import runs
from unetkit.callbacks.analysis import AnalysisFile
from unetkit.callbacks.auto_batch import AutoBatch
from unetkit.callbacks.lowering import resolve_lowering
from unetkit.callbacks.memory_viewer import MemoryViewer, attached_chip
from unetkit.errors import LimitError, UnetkitError
from unetkit.recipe import Recipe
from unetkit.tpu import local, tuning
from unetkit.tpu.answer import Answer
from unetkit.tpu.axes import changed
from unetkit.tpu.chips import chip as find_chip
from unetkit.tpu.packing_plan import with_packing
from unetkit.tpu.terminal import size

KEPT = ("batch", "accumulate", "precision", "remat")
"""Keys of `training` that a choice sets, and that a resumed run keeps."""


class TPUAdvisor(keras.callbacks.Callback):
    """`AutoBatch` and `MemoryViewer` in one.

    ```python
    advisor = TPUAdvisor(chip="v2-8", max_padding=2.0, batch="auto")
    batch = advisor.choose(model, images=len(images))
    model.fit(images, targets, batch_size=batch, callbacks=[advisor])
    ```

    Args:
        chip: accelerator, as v2-8 (None: the attached one).
        max_padding: highest ratio of padded to unpadded peak bytes (1.0 = none).
        max_hbm: highest share of the usable HBM.
        batch: `auto`: `choose` is called before the data are batched, and the batch of the `fit` is checked; a number: the global
            batch of the `fit` (None: looked up in the running `fit`).
        refuse: wait for the answer before the first step, and raise where a limit is exceeded or the step does not fit.
        folder: where `analysis.json` goes.
    """

    def __init__(
        self,
        chip: str | None = None,
        *,
        max_padding: float | None = None,
        max_hbm: float | None = None,
        batch: int | Literal["auto"] | None = None,
        refuse: bool = False,
        folder: str | os.PathLike[str] = ".",
    ) -> None:
        super().__init__()
        known = batch if isinstance(batch, int) else None
        self.batch, self.tuned = batch, None
        self.auto = AutoBatch(chip, max_padding=max_padding, max_hbm=max_hbm, batch=known)
        self.viewer = MemoryViewer(chip, max_padding=max_padding, max_hbm=max_hbm, refuse=refuse, folder=folder, batch=known)
        self.file = AnalysisFile(folder)
        self.notes: list[str] = []
        self.looks = True

    def choose(self, model: keras.Model, **known: Any) -> int:
        """See `AutoBatch.choose`."""
        chosen = self.auto.choose(model, **known)
        found = self.auto.found
        self.tuned = {
            "choice": found.best.brief(),
            "candidates": [answer.brief() for _, answer in sorted(found.answers.items())],
            "compiles": found.compiles,
            "seconds": round(found.seconds, 1),
        }
        return chosen

    @property
    def answer(self) -> Answer | None:
        """What `MemoryViewer` was answered."""
        return self.viewer.answer

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        self.auto.set_model(model)
        self.viewer.set_model(model)

    def on_train_begin(self, logs: Any = None) -> None:
        if self.tuned:
            self.file.write("tune", self.tuned)
        if self.batch == "auto":
            self.auto.on_train_begin(logs)
        if self.looks:
            self.viewer.on_train_begin(logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.viewer.on_epoch_end(epoch, logs)

    def on_train_end(self, logs: Any = None) -> None:
        self.viewer.on_train_end(logs)


class RecipeAdvisor(TPUAdvisor):
    """The advisor that every run of the trainer has: `prepare` settles the batch before anything is built.

    Args:
        recipe: its `tpu` section says for which chip, and which limits refuse to train.
        folder: the run folder.
    """

    def __init__(self, recipe: Recipe, folder: str | os.PathLike[str]) -> None:
        limits = recipe.tpu.max_padding, recipe.tpu.max_hbm
        super().__init__(recipe.tpu.chip, max_padding=limits[0], max_hbm=limits[1], refuse=limits != (None, None), folder=folder)
        self.folder = Path(folder)
        self.looks = attached_chip(recipe.tpu.chip) is not None

    def prepare(self, recipe: Recipe, images: int, kind: str, replicas: int) -> Recipe:
        """The recipe with a batch that is a number, and with micro-batches that fit.

        Args:
            recipe: as it was read.
            images: training images there are.
            kind: of device: cpu, gpu, tpu.
            replicas: devices that share a batch here.

        Raises:
            UserError: fewer images than one batch.
            LimitError: with `auto`, no batch fits; says what would.
        """
        name = attached_chip(recipe.tpu.chip)
        if recipe.training.batch != "auto":
            recipe = resolve_lowering(recipe)
        if runs.is_run(self.folder) and (recipe.training.batch == "auto" or AnalysisFile(self.folder).read("tune")):
            recipe = self._kept(recipe)
        elif recipe.training.batch == "auto":
            recipe = self._tuned(recipe, name, images) if name else self._local(recipe, kind, replicas, images)
        elif name:
            recipe = self._accumulated(recipe, name)
        recipe = resolve_lowering(recipe)  # for the batch that was found
        self.viewer.recipe = recipe
        return recipe

    def _kept(self, recipe: Recipe) -> Recipe:
        """What was chosen when the run began."""
        kept = recipes.read(runs.read(self.folder).recipe)
        before = kept.training
        names = KEPT if recipe.training.batch == "auto" else ("accumulate",)
        if recipe.training.batch == "auto" and recipe.tpu.tune.lowering:
            recipe = with_packing(recipe, kept.model.packing)
        self.notes.append(f"batch {before.batch} x accumulate {before.accumulate}, as chosen when this run began")
        return changed(recipe, **{name: getattr(before, name) for name in names})

    def _tuned(self, recipe: Recipe, name: str, images: int) -> Recipe:
        found = tuning.tune_recipe(recipe, name, images=images)
        self.tuned = found.to_dict()
        if found.ended == "interrupted":
            raise KeyboardInterrupt
        if found.choice is None:
            tried = [
                f"  {one.text}: {'fits' if one.answer.fits else 'does not fit'}, {size(one.answer.hbm.peak_bytes)}"
                for one in found.remedies
            ]
            raise LimitError("\n".join([f"training.batch: auto: {found.reasons[-1]} of a {name}. Tried:", *tried]))
        self.notes += [f"training.batch: {found.choice.global_batch}, chosen for a {name}", *found.reasons]
        training = found.recipe.training
        recipe = dataclasses.replace(recipe, model=found.recipe.model)
        return changed(recipe, **{key: getattr(training, key) for key in KEPT})

    def _local(self, recipe: Recipe, kind: str, replicas: int, images: int) -> Recipe:
        batch, reasons = local.choose(recipe, kind, replicas, images)
        self.tuned = {"choice": {"global_batch": batch, "source": "model"}, "reasons": reasons}
        self.notes += [f"training.batch: {batch}", *reasons]
        return changed(recipe, batch=batch)

    def _accumulated(self, recipe: Recipe, name: str) -> Recipe:
        """A fixed batch stays what it is; where it does not fit at once, its micro-batches are halved until they do."""
        where, training = find_chip(name), recipe.training
        times, first = training.accumulate, None
        while training.batch % (times * where.replicas) == 0:
            tried = changed(recipe, accumulate=times)
            try:
                answer = ask_memory(tried, where.name, training.batch)
            except UnetkitError:
                return recipe  # the memory viewer will ask the same and tell why there is no answer
            first = first or answer
            if answer.fits is not False:
                break
            times *= 2
        else:
            return recipe  # it cannot be shared, or nothing fits: the memory viewer says so when training begins
        if times != training.accumulate:
            needed, limit = size(first.hbm.peak_bytes), size(first.hbm.limit_bytes)
            note = f"training.accumulate: {times}, since {training.batch} images at once need {needed} of {limit} HBM on a {where.name}"
            self.notes.append(note)
            self.tuned = {"choice": answer.brief(), "candidates": [first.brief(), answer.brief()], "reasons": [note]}
        return tried


def ask_memory(recipe: Recipe, chip_name: str, batch: int) -> Answer:
    """What one global batch needs; not known (`fits` is None) where the step cannot be built for this chip."""
    return tuning.ask_inspection(recipe, chip_name, batch, "memory", recipe.name)
