"""The fastest batch for any Keras model, before its data are batched."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import keras

from unetkit.callbacks.memory_viewer import attached_chip, running_batch
from unetkit.errors import LimitError, UserError
from unetkit.shapes import nearest_multiples
from unetkit.tpu import inspection, model
from unetkit.tpu.chips import Chip
from unetkit.tpu.chips import chip as find_chip
from unetkit.tpu.search import MARGIN, Found, search
from unetkit.tpu.terminal import size
from unetkit.tpu.tiles import SUBLANES
from unetkit.tpu.tuning import compiler_here, model_share


class AutoBatch(keras.callbacks.Callback):
    """Chooses the global batch that trains a model fastest on a TPU, and checks the batch of a `fit`.

    ```python
    from unetkit.callbacks import AutoBatch

    auto = AutoBatch(chip="v2-8")
    batch = auto.choose(model, images=len(images))
    model.fit(images, targets, batch_size=batch, callbacks=[auto])
    ```

    `choose` asks the compiler for a few batches, which takes minutes and is cached. As a callback it warns where a `fit` begins
    with a batch that is not a multiple of replicas x 8, and names both neighbours.

    Args:
        chip: accelerator, as v2-8 (None: the attached one).
        max_padding: highest ratio of padded to unpadded peak bytes (1.0 = none).
        max_hbm: highest share of the usable HBM (None: 0.95; where the arithmetic model answers 0.7, or 0.6 on tpu7x).
        batch: global batch of the `fit`, where Keras' data do not tell (None: that of the running `fit`).
    """

    def __init__(
        self, chip: str | None = None, *, max_padding: float | None = None, max_hbm: float | None = None, batch: int | None = None
    ) -> None:
        super().__init__()
        self.chip, self.max_padding, self.max_hbm, self.batch = chip, max_padding, max_hbm, batch
        self.found: Found | None = None

    def choose(
        self,
        model: keras.Model,
        *,
        optimizer: Any = None,
        loss: Any = None,
        input_shape: Sequence[int] | None = None,
        target_shape: Sequence[int] | None = None,
        images: int | None = None,
    ) -> int:
        """The fastest global batch that fits; `found` then holds every candidate.

        Args:
            model: compiled, or give `optimizer` and `loss`.
            input_shape, target_shape: of one sample, where the model leaves sizes open.
            images: how many there are; no batch is larger.

        Raises:
            UserError: no chip, fewer images than one batch, or a model that cannot be written as a config.
            LimitError: not even 8 images per replica fit.
        """
        where, by_model = self._where(), not compiler_here()
        unit = where.replicas
        if images is not None and images < unit * SUBLANES:
            raise UserError(
                f"AutoBatch: a batch is a multiple of {unit * SUBLANES} ({unit} replicas x {SUBLANES}), and there are {images} images"
            )
        asked = {"optimizer": optimizer, "loss": loss, "input_shape": input_shape, "target_shape": target_shape}

        def ask(batch: int, stage: Any):
            answer = inspection.inspect(model, chip=where.name, batch=batch * unit, stage=stage, **asked)
            return inspection.limited(answer, self.max_padding)

        share = self.max_hbm or (model_share(where) if by_model else 1.0 - MARGIN)
        expected = self._expected(model, where, optimizer, input_shape)
        self.found = search(ask, expected=expected, most=None if images is None else images // unit, share=share)
        if self.found.ended == "interrupted":
            raise KeyboardInterrupt
        if self.found.best is None:
            least = self.found.answers[min(self.found.answers)]
            raise LimitError(
                f"AutoBatch: not even {least.global_batch} images of {model.name} ({least.per_core_batch} per replica) fit into "
                f"{share:.0%} of the HBM of a {where.name}: {size(least.hbm.peak_bytes)} of {size(least.hbm.limit_bytes)} needed. "
                "Smaller images, mixed_bfloat16 or a larger chip may fit."
            )
        return int(self.found.best.global_batch or 0)

    def on_train_begin(self, logs: Any = None) -> None:
        multiple, batch = self._where().replicas * SUBLANES, self.batch or running_batch("AutoBatch")
        if batch % multiple:
            near = " or ".join(str(n) for n in nearest_multiples(batch, multiple))
            warnings.warn(
                f"AutoBatch: a batch of {batch} is no multiple of {multiple} ({multiple // SUBLANES} replicas x {SUBLANES}), so it is "
                f"padded. Use {near}.",
                stacklevel=2,
            )

    def _where(self) -> Chip:
        name = attached_chip(self.chip)
        if name is None:
            raise UserError("AutoBatch: no TPU is attached; name the accelerator to plan for: chip='v2-8'")
        return find_chip(name)

    def _expected(self, network: keras.Model, where: Chip, optimizer: Any, input_shape: Any):
        shapes = None if input_shape is None else [tuple(input_shape)]
        own = optimizer or network.optimizer

        @functools.cache
        def expected(batch: int) -> float:
            total = batch * where.replicas
            answer = model.estimate(network, chip_name=where.name, batch=total, optimizer=own, input_shapes=shapes)
            return answer.step.images_per_second or 1.0

        return expected
