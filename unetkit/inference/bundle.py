"""A bundle: a trained network at one shape with all that is needed to use it. `unetkit export` writes it, `generate` opens it."""

from __future__ import annotations

import importlib
import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unetkit import __version__, backend, files, runs
from unetkit import recipe as recipes
from unetkit.errors import UserError, WorkError
from unetkit.inference import formats
from unetkit.inference.fixed import Fixed, Receptive
from unetkit.inference.maker import Maker, check_tile, enlargement, refuse_enlarged
from unetkit.inference.media import Medium, Pictures, sounds
from unetkit.inference.opening import open_run
from unetkit.inference.sampling import is_sampled
from unetkit.inference.tiled import Tiled
from unetkit.runs.names import MODEL

DESCRIPTION = "bundle.json"


def export(
    run: str | Path,
    format: str,
    out: str | Path,
    *,
    tile: int | Sequence[int] | None = None,
    overlap: int | Sequence[int] | str = "auto",
    window: str = "auto",
    batch: int | None = None,
    average: bool = True,
    allow_code: bool = False,
) -> Path:
    """Writes a run's best network as a bundle: a folder with the network and `bundle.json`, which `generate` takes like a run.

    Args:
        run: the run folder.
        format: keras, savedmodel, onnx, stablehlo or litert.
        out: the folder to make.
        tile, overlap, window: as of `Tiled`, with the training size as the default tile; fixed in the bundle.
        batch: tiles per call, fixed too (None: 1).
        average: the averaged weights, where there are any; False: the raw ones.
        allow_code: trust the code that the run's recipe names.

    Returns:
        The folder.

    Raises:
        UserError: a format that is unknown, whose packages are missing or whose engine is not the one in use; the folder
            exists; the run cannot be opened. Nothing has been computed then.
        WorkError: the converter cannot write this network, or the disk is full.
    """
    out, chosen = Path(out), formats.known(format)
    formats.require(format, chosen.write_needs, "write")
    if out.exists():
        raise UserError(f"{out} exists and is not overwritten; name another folder with --out")
    opened = runs.read(run)
    runs.require_code_allowed(opened.recipe, opened.path, allow_code=allow_code)
    recipe = recipes.read(opened.recipe)
    check_tile(tile, recipe.model)
    if is_sampled(recipe):
        steps, kind = recipe.objective.sampler_steps, recipe.objective.kind
        raise UserError(
            f"{run} makes each picture in {steps} steps of a sampler (objective {kind}), and a bundle holds one that needs only one "
            f"pass. Use the run itself, unetkit generate {run}, or its network, {opened.path / MODEL}"
        )
    if chosen.engine:
        _choose(chosen.engine, format)
    restored = open_run(run, allow_code=allow_code, average=average)
    network = restored.network(tile)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that tiles are not exact is told where they are used
        tiled = Tiled(network, overlap=overlap, window=window, batch=batch or 1)
    data = recipe.data
    description = {
        "unetkit": __version__,
        "format": format,
        "file": chosen.file,
        "batch": tiled.batch,
        "tile": tiled.tile,
        "overlap": tiled.overlap,
        "window": tiled.window,
        "multiple_of": tiled.receptive.stride,
        "receptive_radius": tiled.receptive.radius,
        "looks_everywhere": tiled.receptive.everywhere,
        "input_channels": tiled.channels,
        "output_channels": tiled.output_channels,
        "value_range": [-1, 1],
        "background": data.background,
        "enlarge": enlargement(data),
        "sound": {"rate": data.source.rate, "channel": getattr(data.source, "channel", "mean")} if hasattr(data.source, "rate") else None,
        "weights": "average" if restored.averaged else "raw",
        "step": restored.step,
        "name": recipe.name,
        "code": [block] if ":" in (block := getattr(recipe.model, "block", "")) else [],
        "fingerprint": restored.fingerprint,
    }
    temporary = files.partial_name(out)
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        formats.write(format, network, (tiled.batch, *tiled.tile, tiled.channels), temporary / chosen.file)
        files.write(temporary / DESCRIPTION, json.dumps(description, indent=2) + "\n")
        temporary.replace(out)
    except OSError as error:
        raise WorkError(f"{out} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return out


def is_bundle(path: str | Path) -> bool:
    """Whether a folder is a bundle."""
    return (Path(path) / DESCRIPTION).is_file()


def open_bundle(path: str | Path, *, depth: int | None, enlarged: bool, allow_code: bool) -> Maker:
    """Opens a bundle to make files with, by the runtime of its format alone.

    Raises:
        UserError: its description or its network cannot be read, the runtime is not installed, or code is named in it and not
            allowed (the format keras alone runs any).
    """
    folder = Path(path)
    try:
        said: dict[str, Any] = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        chosen = formats.known(said["format"])
        radius = said["receptive_radius"]
        receptive = Receptive(radius and tuple(radius), said["multiple_of"], said["looks_everywhere"])
        sizes = said["batch"], tuple(said["tile"]), said["input_channels"], said["output_channels"], receptive
        if min(said["multiple_of"], said["batch"], *said["tile"]) < 1 or len(said["overlap"]) != len(said["tile"]):
            raise ValueError("multiple_of, batch, tile or overlap")
        own = {"overlap": tuple(said["overlap"]), "window": said["window"]}
        medium: Medium
        if sound := said.get("sound"):
            medium = sounds(said["input_channels"], sound, depth)
        else:
            medium = Pictures(said["input_channels"], tuple(said["background"]), depth, 1 if enlarged else said["enlarge"])
        fingerprint = f"{said['fingerprint']} {said['format']}"
    except UserError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder / DESCRIPTION} is damaged: {error!r}. Export the run again") from error
    refuse_enlarged(enlarged, said["enlarge"])
    if not (folder / chosen.file).exists():
        raise UserError(f"{folder} lacks its network, {chosen.file}. Export the run again")
    formats.require(said["format"], chosen.read_needs, "run")

    def make(tile: Any, overlap: Any, window: str, batch: Any) -> tuple[Tiled, str]:
        if tile is not None or batch is not None:
            raise UserError(f"{folder} is fixed to tiles of {said['tile']}, {said['batch']} at once; export the run again for others")
        if chosen is formats.FORMATS["keras"]:
            backend.prefer("tensorflow")
            for name in said["code"]:
                if not allow_code:
                    raise UserError(f"{folder} names code, {name}; --allow-code imports it, if you trust the bundle")
                importlib.import_module(name.partition(":")[0])
        cut = {"overlap": own["overlap"] if overlap == "auto" else overlap, "window": own["window"] if window == "auto" else window}
        try:
            run = chosen.open(folder / chosen.file)
        except Exception as error:  # runtimes raise whatever they like
            raise UserError(f"{folder / chosen.file} cannot be opened as {said['format']}: {str(error)[:300]}") from error
        return Tiled(Fixed(run, *sizes), **cut), fingerprint

    return Maker(medium, make)


def _choose(engine: str, format: str) -> None:
    """Makes Keras use the engine that writes a format, or says why it cannot."""
    try:
        backend.select(engine)
    except UserError as error:
        raise UserError(f"format: {format} is written by Keras on {engine}, which does not run here: {error}") from error
