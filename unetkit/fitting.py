"""`unetkit.fit`: from a recipe to a trained run folder. What `unetkit train` does, for Python and notebooks."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unetkit import backend, buckets
from unetkit import recipe as recipes
from unetkit.errors import UserError
from unetkit.recipe.schema import Recipe
from unetkit.train.tpu_diagnosis import diagnose

if TYPE_CHECKING:
    import keras

    from unetkit.session import Result


def fit(
    recipe: Recipe | str | Path | dict[str, Any],
    run: str | Path | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    *,
    overrides: Sequence[str] = (),
    init_from: str | Path | None = None,
    progress: bool = True,
    no_recompile: bool = False,
) -> Result:
    """Trains a recipe, or goes on with a run that was interrupted: the same call again resumes it.

    Args:
        recipe: a recipe, the path of one, or its content as a dictionary.
        run: the run folder, which may be in a bucket (gs://BUCKET/...); `runs/NAME` by default.
        callbacks: Keras callbacks beside those that the recipe names. They run at interval ends, see `train.callbacks`.
        overrides: `section.key=value`, as `--set` takes them.
        init_from: a run folder, `.npz`, `.keras` or `.weights.h5` whose weights the run starts from.
        progress: whether to show the progress line.
        no_recompile: stop with a LimitError where the step, or the network by itself, is compiled a second time.

    Raises:
        UserError: bad input; nothing has been written then.
        WorkError: the training failed, for example a loss that is not finite.
        LimitError: a limit of the recipe's, or `no_recompile`, was not kept.
    """
    if not isinstance(recipe, Recipe):
        recipe = recipes.read(recipe, overrides)
    elif overrides:
        raise UserError("overrides: pass the recipe's path or content with them; a Recipe object is already checked.")
    _look_for_a_tpu(recipe)
    backend.select(recipe.backend)
    from unetkit.callbacks import RecipeAdvisor
    from unetkit.session import Session

    if buckets.is_bucket(init_from):
        init_from = buckets.fetch(str(init_from), _say)
    mirror = buckets.Mirror(str(run), _say) if buckets.is_bucket(run) else None
    folder = mirror.pull() if mirror else Path(run or Path("runs") / recipe.name)
    advisor = RecipeAdvisor(recipe, folder)
    sent = mirror.push if mirror else None
    return Session(recipe, folder, [advisor, *callbacks], init_from, progress, advisor, no_recompile, sent).run()


def _look_for_a_tpu(recipe: Recipe) -> None:
    """Refuses a TPU that cannot be used before an engine is imported: with the wrong library that import ends the process."""
    if recipe.hardware.device not in ("tpu", "auto"):
        return
    found = diagnose()
    if recipe.hardware.device == "tpu" or found.chips:
        found.require(recipe.backend)
    if recipe.backend == "tensorflow":
        for name, value in found.runtime().items():
            os.environ.setdefault(name, value)


def _say(text: str) -> None:
    print(text, file=sys.stderr)
