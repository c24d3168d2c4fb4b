"""`unetkit evaluate RUN`: the metrics of a trained run, as numbers and as a table."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from unetkit.data import open_dataset
from unetkit.errors import UserError
from unetkit.evaluate import evaluate
from unetkit.inference.borders import seams
from unetkit.inference.opening import open_run
from unetkit.inference.sampling import fixed, is_sampled
from unetkit.inference.tiled import Tiled
from unetkit.progress import Count
from unetkit.tables import as_text

if TYPE_CHECKING:
    import keras

    from unetkit.build import Restored

COLUMNS = {"l1": ("L1", "{:.4f}"), "psnr": ("PSNR", "{:.2f} dB"), "snr": ("SNR", "{:.2f} dB"), "ssim": ("SSIM", "{:.3f}")}
BASELINES = {
    "input": "the input itself",
    "silence": "silence",
    "mean_color": "the training set's mean colour",
    "mean_image": "the training set's mean image",
}


def evaluate_run(run: str | Path, *, allow_code: bool = False, progress: bool = False) -> dict[str, Any]:
    """L1, PSNR and SSIM of a run's best weights over all its validation images, beside the trivial answers; L1, PSNR and SNR of signals.

    Returns:
        As `unetkit.evaluate.evaluate`, {images, l1, psnr, ssim, baselines}, and `seams` as of `tile_seams` (not for flow and
        diffusion, whose pictures are judged at the recipe's steps, all from the same noise).

    Raises:
        UserError: not a run folder, code is named in it and not allowed, its data cannot be opened, or its pictures are made
            from noise alone.
        WorkError: an output is not finite.
    """
    restored = open_run(run, allow_code=allow_code)
    recipe = restored.recipe
    if is_sampled(recipe) and recipe.objective.condition != "image":
        raise UserError(
            f"{run} makes its pictures from noise, so no truth belongs to one of them. Compare many with true ones: unetkit generate {run} "
            "--count 2000 --out made, then unetkit compare TRUE_IMAGES made"
        )
    from unetkit.compiled import compiled  # imports Keras, whose backend was chosen just now

    at_once = max(1, recipe.training.batch // recipe.training.accumulate)
    dataset = open_dataset(recipe.data, recipe.seed)
    sampled = is_sampled(recipe)
    network = None if sampled else restored.network()
    predict = fixed(restored, None, at_once, recipe.seed).run if sampled else compiled(network)
    with contextlib.closing(Count(len(dataset.validation), progress)) as count:
        figures = evaluate(predict, dataset, at_once, count.done)
    if network is None:
        return figures
    return figures | {"seams": tile_seams(restored, network, dataset.validation.pair(0)["input"])}


def tile_seams(restored: Restored, network: keras.Model, image: np.ndarray) -> dict[str, Any]:
    """How much tiles of the training size show, against one pass over the whole: see `unetkit.inference.borders`.

    Args:
        restored: the run.
        network: its network at the training size.
        image: (h, w, c) or (w, c) of the training size; mirrored out to twice each side, so that there are tiles to be seen.

    Returns:
        {tile, overlap, window, border, interior, ratio}.
    """
    from unetkit.compiled import compiled

    large = np.pad(image, [(0, side) for side in image.shape[:-1]] + [(0, 0)], mode="symmetric")
    whole = compiled(restored.network(large.shape[:-1]))(large[None])[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that tiles are not exact is what the figures say
        tiled = Tiled(network, batch=1)
    return {"tile": list(tiled.tile), "overlap": list(tiled.overlap), "window": tiled.window, **seams(tiled, large, whole)}


def table(figures: dict[str, Any]) -> str:
    """The figures of `evaluate` for the terminal."""
    what = "signals" if "signals" in figures else "images"
    rows = {f"the network ({figures[what]:,} {what})": figures, **{BASELINES[name]: of for name, of in figures["baselines"].items()}}
    made = Table(f"mean over the validation {what}" + (", SNR over all of them" if what == "signals" else ""))
    shown = {metric: column for metric, column in COLUMNS.items() if metric in figures}
    for title, _ in shown.values():
        made.add_column(title, justify="right")
    for name, of in rows.items():
        made.add_row(name, *(form.format(of[metric]) for metric, (_, form) in shown.items()))
    if "seams" not in figures:
        return as_text(made)
    cut = figures["seams"]
    tile = " x ".join(map(str, cut["tile"]))
    seen = f"tiles of {tile}, window {cut['window']}: error at their borders over the error between them {cut['ratio']:.2f} "
    return f"{as_text(made)}\n{seen}(L1 {cut['border'] / 2:.1e} and {cut['interior'] / 2:.1e}, against one pass over all)"
