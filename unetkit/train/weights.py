"""Reads weights to start from: another run's, or a file's, as plain name -> array."""

from pathlib import Path

import keras
import numpy as np

from unetkit import runs
from unetkit.errors import UserError
from unetkit.train.step import is_seed


def read_weights(source: str | Path) -> dict[str, np.ndarray]:
    """The weights that a run or a file would make pictures with: the averaged ones where there are any.

    Args:
        source: a run folder, or a file: `.npz` (plain names), or `.keras`.

    Raises:
        UserError: nothing there, or not one of these.
    """
    path = Path(source)
    if path.suffix == ".npz" and path.is_file():
        with np.load(path, allow_pickle=False) as file:
            return dict(file)
    if path.suffix == ".keras" and path.is_file():
        model = keras.models.load_model(path, compile=False)
        return {v.path: keras.ops.convert_to_numpy(v.value) for v in model.variables if not is_seed(v)}
    if path.is_file():
        raise UserError(f"--init-from {path}: known are a run folder, .npz and .keras files.")
    run = runs.read(path)
    checkpoint = run.best() or run.latest()
    if checkpoint is None:
        raise UserError(f"--init-from {path}: the run has no checkpoint yet.")
    averaged = checkpoint.arrays("ema") if "ema" in checkpoint.groups else {}
    return checkpoint.arrays("weights") | averaged
