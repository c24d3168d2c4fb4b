"""Every shipped recipe, shrunk to seconds, trains to the end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import unetkit
from unetkit import recipe as recipes
from unetkit.data.sounds import write_sound
from unetkit.recipe import schema

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.yaml"))
HERE = [path for path in RECIPES if recipes.read(path).hardware.device != "tpu"]
ON_TPU = [path for path in RECIPES if path not in HERE]


def shrunk(path, folder):
    """The recipe on tiny images, with few channels and a handful of steps; everything else as it is."""
    whole = recipes.read(path)
    if isinstance(whole.model, schema.Original):
        model, halvings = ["model.start_ch=2"], whole.model.depth
    else:
        levels = [{**vars(level), "channels": min(level.channels, 8)} for level in whole.model.levels]
        model, halvings = (
            [f"model.levels={levels!r}".replace("None", "null").replace("True", "true").replace("False", "false")],
            len(levels) - 1,
        )
    return recipes.read(
        path,
        [
            *model,
            f"data.size={2 ** (halvings + 1)}",
            "data.split.limit=8",
            "data.split.validation=0.005",
            *sound_in(folder, whole.data.source),
            "training.images=16",
            "training.epochs=null",
            "training.batch=4",
            "optimizer.warmup_images=0",
        ],
    )


def sound_in(folder, source):
    """For a recipe that reads sound: files of this test's own in its place, and a share of them to validate on."""
    if not isinstance(source, schema.Sound):
        return []
    for number in range(4):
        write_sound(folder / f"{number}.wav", 0.3 * np.sin(np.arange(500) * (number + 1) / 20), source.rate)
    return [f"data.source.path={folder}", "data.split.validation=0.25"]


def test_there_are_recipes():
    assert {"emoji.yaml", "the-question.yaml"} <= {path.name for path in RECIPES}


@pytest.mark.parametrize("path", HERE, ids=lambda path: path.stem)
def test_shipped_recipe_trains(path, tmp_path):
    recipe = shrunk(path, tmp_path)
    result = unetkit.fit(
        recipes.to_dict(recipe) | {"tpu": {}}, tmp_path / "run", progress=False
    )  # tpu: {}: asking a compiler is tested elsewhere
    assert (result.status, result.step) == ("done", 4)
    assert (tmp_path / "run" / "model.keras").exists()


def test_there_are_recipes_for_a_tpu():
    for path in ON_TPU:
        recipe = recipes.read(path)
        assert (recipe.training.batch, recipe.training.precision, recipe.tpu.chip) == (
            "auto",
            "mixed_bfloat16",
            path.stem.removeprefix("tpu-"),
        )
    assert {path.stem for path in ON_TPU} == {"tpu-v2-8", "tpu-v5e-8"}


@pytest.mark.parametrize(("stem", "backend"), [("tpu-v2-8", "tensorflow"), ("tpu-v5e-8", "jax")])
def test_a_tpu_recipe_trains_on_eight_virtual_devices(stem, backend, tmp_path):
    """In a process of its own, which must make its devices before the engine starts; `auto` then looks at this machine."""
    small = (
        f"backend={backend} hardware.device=cpu hardware.replicas=8 tpu.chip=null model.levels=[4,8] data.size=16 data.split.limit=128 "
        "data.split.validation=0.01 training.images=128 training.steps_per_call=1 optimizer.warmup_images=0 logging.samples.count=0"
    )
    overrides = [word for change in small.split() for word in ("--set", change)]
    path = next(path for path in ON_TPU if path.stem == stem)
    environment = {k: v for k, v in os.environ.items() if k not in ("KERAS_BACKEND", "XLA_FLAGS", "TPU_ACCELERATOR_TYPE")}
    command = [sys.executable, "-m", "unetkit", "train", str(path), "--run", str(tmp_path / "run"), *overrides]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert recipes.read(tmp_path / "run" / "recipe.yaml").training.batch % 64 == 0
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["replicas"] == 8
    assert json.loads((tmp_path / "run" / "analysis.json").read_text())["tune"]["choice"]["source"] == "model"
