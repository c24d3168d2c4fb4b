"""Opens a trained run to work with it: trust first, then the engine, then the weights."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from unetkit import backend, runs

if TYPE_CHECKING:
    from unetkit.build import Restored


def open_run(run: str | Path, *, allow_code: bool = False, average: bool = True) -> Restored:
    """The run's best weights (its latest where none were validated), ready to make images; notes go to standard error.

    `average=False` takes the raw weights even where there is an average.

    Raises:
        UserError: not a run folder, no checkpoint yet, or code is named in it and `allow_code` is False.
        WorkError: every checkpoint is damaged.
    """
    opened = runs.read(run)
    runs.require_code_allowed(opened.recipe, opened.path, allow_code=allow_code)
    backend.prefer(opened.recipe["backend"])
    from unetkit import build  # imports Keras, whose backend must be chosen before

    restored = build.restore(run, allow_code=allow_code, average=average)
    for message in restored.messages:
        print(message, file=sys.stderr)
    return restored
