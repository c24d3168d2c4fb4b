"""What makes pictures: a network of one shape, how its files are read and written, and what its outputs depend on."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unetkit import recipe as recipes
from unetkit import runs, shapes
from unetkit.errors import UserError
from unetkit.inference.media import Medium, Pictures, sounds
from unetkit.inference.opening import open_run
from unetkit.inference.sampling import changed, fixed, is_sampled
from unetkit.inference.tiled import Tiled
from unetkit.recipe import schema
from unetkit.recipe.checks import halvings


@dataclass
class Maker:
    """An opened run or bundle.

    Attributes:
        medium: how inputs are read and outputs written.
        make: from the keyword arguments of `Tiled`: it, and what tells its network from others.
        tiled: after `prepare`.
        settings: after `prepare`, all that an output depends on beside its input file.
        note: after `prepare`, what users of tiles should know, or "".
    """

    medium: Medium
    make: Callable[..., tuple[Tiled, str]]
    tiled: Tiled = field(init=False)
    settings: dict[str, Any] = field(init=False)
    note: str = field(init=False, default="")

    def prepare(self, **cut: Any) -> None:
        """Builds the network for the tile asked for; raises UserError where tile, overlap or window do not fit it."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.tiled, network = self.make(**cut)
        self.note = "\n".join(str(one.message) for one in caught)
        cut = {"tile": self.tiled.tile, "overlap": self.tiled.overlap, "window": self.tiled.window}
        self.settings = {"network": network, "medium": repr(self.medium), **cut}


def open_maker(
    run: str | Path, *, depth: int | None, enlarged: bool, allow_code: bool, seed: int = 0, sampling: Mapping[str, Any] | None = None
) -> Maker:
    """Opens a run folder to make files with. Its network is opened by `prepare`, when the inputs are known to be there.

    Args:
        seed: of the noise, where pictures begin with noise.
        sampling: see `unetkit.inference.sampling.changed`.

    Raises:
        UserError: not a run, or code is named in it and not allowed; or its pictures are made of nothing but noise.
    """
    opened = runs.read(run)
    runs.require_code_allowed(opened.recipe, opened.path, allow_code=allow_code)
    recipe = changed(recipes.read(opened.recipe), **(sampling or {}))
    data = recipe.data
    if is_sampled(recipe) and recipe.objective.condition != "image":
        raise UserError(f"{run} makes its pictures from noise and takes no images; try: unetkit generate {run} --count 64 --out pictures")
    refuse_enlarged(enlarged, enlargement(data))

    def make(tile: int | Sequence[int] | None, **cut: Any) -> tuple[Tiled, str]:
        check_tile(tile, recipe.model)
        restored = dataclasses.replace(open_run(run, allow_code=allow_code), recipe=recipe)
        if is_sampled(recipe):
            return Tiled(fixed(restored, tile, cut.pop("batch"), seed), **cut), f"{restored.fingerprint} seed {seed}"
        return Tiled(restored.network(tile), **cut), restored.fingerprint

    if data.source.rank == 1:
        return Maker(sounds(data.input_channels, vars(data.source), depth), make)
    return Maker(Pictures(data.input_channels, data.background, depth, 1 if enlarged else enlargement(data)), make)


def check_tile(tile: int | Sequence[int] | None, model: schema.UNet | schema.Original) -> None:
    """Raises UserError for a tile that the model's levels do not halve; before any network is built."""
    if tile is not None:
        shapes.check_halvable(tile if isinstance(tile, int) else tuple(tile), halvings(model), "tile")


def refuse_enlarged(enlarged: bool, factor: int) -> None:
    """Raises UserError where inputs are said to be enlarged already and the run enlarges none."""
    if enlarged and factor == 1:
        raise UserError("--enlarged is for runs trained by super_resolve, which enlarge their inputs; this one takes them as they are")


def enlargement(data: schema.Data) -> int:
    """How many times larger an image is made before a network trained on `data` sees it."""
    task = getattr(data.source, "task", None)
    return task.factor if isinstance(task, schema.SuperResolve) else 1
