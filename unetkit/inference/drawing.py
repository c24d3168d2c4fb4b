"""`unetkit generate RUN --count N`: pictures from noise alone."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

from unetkit import pictures, runs
from unetkit import recipe as recipes
from unetkit.data.images import write_image
from unetkit.errors import UserError, WorkError
from unetkit.inference.opening import open_run
from unetkit.inference.sampling import Sampler, changed, is_sampled
from unetkit.progress import Count
from unetkit.recipe import schema

GRID = "grid.png"
MOST_IN_GRID = 64


def draw(
    run: str | Path,
    count: int,
    out: str | Path,
    *,
    label: str | None = None,
    seed: int = 0,
    steps: int | None = None,
    guidance: float | None = None,
    sampler: str | None = None,
    depth: int = 8,
    batch: int | None = None,
    allow_code: bool = False,
    progress: bool = True,
) -> list[Path]:
    """Writes `count` pictures that a run makes from noise, `000000.png` and so on, and up to 64 of them side by side in `grid.png`.

    Picture n depends on the run, the seed and n alone: not on how many there are, nor on how many are made at once.

    Args:
        run: the run folder.
        count: how many.
        out: the folder to write to; files of the same names are replaced.
        label: the class, by name; None: runs with classes take them in turn.
        seed: of the noise.
        steps, guidance, sampler: in place of the recipe's (None: the recipe's).
        depth: 8 or 16 bits per channel.
        batch: pictures at once (None: what suits the device).
        allow_code: trust the code that the run's recipe names.
        progress: whether to show rate and time left.

    Returns:
        The pictures.

    Raises:
        UserError: not such a run, or bad input; nothing has been written then.
        WorkError: a file cannot be written.
    """
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; name a folder to write to")
    opened = runs.read(run)
    runs.require_code_allowed(opened.recipe, opened.path, allow_code=allow_code)
    recipe = changed(recipes.read(opened.recipe), steps=steps, guidance=guidance, sampler=sampler)
    if not is_sampled(recipe) or recipe.objective.condition == "image":
        raise UserError(f"--count: {run} makes a picture of each image it is given; name images, as in: unetkit generate {run} IMAGE")
    label_of = class_chooser(recipe, label)
    restored = dataclasses.replace(open_run(run, allow_code=allow_code), recipe=recipe)
    make = Sampler(restored, batch=batch)
    made: list[Path] = []
    shown: list[np.ndarray] = []
    with contextlib.closing(Count(count, progress)) as line:
        for start in range(0, count, make.batch):
            numbers = np.arange(start, min(start + make.batch, count))
            for number, picture in zip(numbers, make(label_of(numbers), seed, numbers), strict=True):
                made.append(out / f"{number:06d}.png")
                _write(made[-1], picture, depth)
                if len(shown) < MOST_IN_GRID:
                    shown.append(picture)
            line.done(len(made))
        pictures.grid([(picture,) for picture in shown], (f"seed {seed}",), out / GRID)
        line.note(f"{len(made):,} {'picture' if len(made) == 1 else 'pictures'} in {out}, the first of them side by side in {out / GRID}")
    return made


def class_chooser(recipe: schema.Recipe, label: str | None) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """From numbers of pictures to what the network is told of their classes.

    Raises:
        UserError: a class that the run does not have.
    """
    known = recipe.data.classes if recipe.objective.condition == "class" else ()
    if label is None:
        return lambda numbers: {"label": (numbers % len(known)).astype(np.float32)} if known else {}
    if label not in known:
        raise UserError(f"--class: {label!r} is unknown; this run has {', '.join(known) if known else 'no classes'}")
    return lambda numbers: {"label": np.full(len(numbers), known.index(label), np.float32)}


def _write(path: Path, picture: np.ndarray, depth: int) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_image(path, picture, depth)
    except OSError as error:
        raise WorkError(f"{path} cannot be written: {error.strerror or error}") from error
