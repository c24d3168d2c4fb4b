"""The code of docs/blocks.md runs as it is printed."""

import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from unetkit import read_recipe, runs
from unetkit.cli.app import main
from unetkit.models import UNet
from unetkit.testing import check_block

PAGE = (Path(__file__).parents[2] / "docs" / "blocks.md").read_text(encoding="utf-8")
FILES = {name: text for text, name in re.findall(r"^```(?:python|yaml)\n(# (\S+\.(?:py|yaml))\n.*?)^```", PAGE, re.S | re.M)}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the page's files, in which one could start."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


def test_the_page_has_every_file():
    assert list(FILES) == ["my_blocks.py", "check_my_blocks.py", "my-blocks.yaml", "my_model.py", "my_resample.py"]


def test_the_block_passes_its_check_and_makes_the_model(folder):
    runpy.run_path(folder / "check_my_blocks.py")
    model = runpy.run_path(folder / "my_model.py")["model"]
    assert "up_0/block0/depthwise/kernel" in {weight.path for weight in model.weights}
    assert model.compiled


def test_the_recipe_names_the_block_and_its_network_is_made(folder):
    recipe = read_recipe(folder / "my-blocks.yaml").model
    model = UNet((8, 8, 1), levels=recipe.levels, block=recipe.block, block_args=recipe.block_args, residual=recipe.residual)
    block = model.get_layer("down_1").stack[0]
    assert (type(block).__name__, block.expansion, block.channels) == ("InvertedBottleneck", 3, 32)


def test_the_command_on_the_page_trains_the_block(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    command = re.search(r"^unetkit (train my-blocks\.yaml)$", PAGE, re.M)[1].split()
    small = {"data.size": 16, "model.levels": "[4,6]", "training.images": 32, "logging.samples.count": 2, "data.split.limit": 20}
    assert main([*command, *(part for key, value in small.items() for part in ("--set", f"{key}={value}"))]) == 0
    assert "next" in capsys.readouterr().out
    latest = runs.read("runs/my-blocks").latest()
    assert any("depthwise/kernel" in name for group in latest.groups for name in latest.arrays(group))


def test_the_resamplers_pass_their_check_and_lay_pixels_out_in_order(folder):
    made = runpy.run_path(folder / "my_resample.py")
    assert made["model"].output_shape == (None, 64, 64, 3)
    check_block(made["AveragePool"])
    check_block(made["PixelShuffle"])
    shuffle = made["PixelShuffle"](1, kernel_size=1, activation="linear")
    shuffle.build((1, 1, 2, 1))
    shuffle.conv.kernel.assign(np.arange(1.0, 5).reshape(1, 1, 1, 4))
    y = np.array(shuffle(np.array([1, 10], "float32").reshape(1, 1, 2, 1)))[0, ..., 0]
    assert np.array_equal(y, [[1, 2, 10, 20], [3, 4, 30, 40]])
