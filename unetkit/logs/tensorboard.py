"""TensorBoard event files in the run folder, by tensorboardX: no TensorFlow is imported, so that it serves both engines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tensorboardX import SummaryWriter

from unetkit.logs.base import Log
from unetkit.runs import RunFolder, names


class TensorBoardLog(Log):
    """Scalars under the names of stats.jsonl, and the sample pictures as `samples`.

    A resumed run writes another file, whose first event makes TensorBoard drop what the first one had beyond the checkpoint.
    """

    title = "TensorBoard"

    def __init__(self, folder: RunFolder) -> None:
        purge = folder.start.step + 1 if folder.start else None
        self._writer = SummaryWriter(str(folder.path / names.TENSORBOARD), purge_step=purge)

    def record(self, line: Mapping[str, Any]) -> None:
        for name, value in line.items():
            if name != "step" and value is not None:
                self._writer.add_scalar(name, value, line["step"])
        self._writer.flush()  # a kill then costs nothing that was logged

    def picture(self, step: int, path: Path) -> None:
        with Image.open(path) as image:
            self._writer.add_image("samples", np.asarray(image.convert("RGB")), step, dataformats="HWC")
        self._writer.flush()

    def close(self, status: int) -> None:
        self._writer.close()
