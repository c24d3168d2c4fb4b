"""A run from the command line: trained, gone on with, measured, and pictures made with it."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from unetkit import fitting
from unetkit.cli import main
from unetkit.data.decode import read_header

RECIPE = """
name: tiny
data: {source: emoji, size: 16, input_channels: 1, split: {limit: 24, validation: 0.01}}
model: {levels: [4, 8], groups: 2}
training: {images: 32, batch: 8, steps_per_call: 2}
logging: {samples: {count: 2}}
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a finished run, made by the command, and what that printed."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "tiny.yaml").write_text(RECIPE)
    assert main(["train", str(folder / "tiny.yaml"), "--run", str(folder / "run"), "--no-recompile"]) == 0
    return folder


def test_train_says_where_everything_is(trained, capsys):
    assert main(["train", str(trained / "tiny.yaml"), "--run", str(trained / "run")]) == 0
    printed = capsys.readouterr()
    assert "Nothing to do" in printed.err
    lines = dict(line.split(maxsplit=1) for line in printed.out.splitlines())
    assert list(lines) == ["pictures", "metrics", "checkpoint", "next"]
    named = [word.rstrip("/,") for line in lines.values() for word in line.split() if word.startswith(str(trained))]
    assert len(named) >= 5 and all(Path(name.rstrip(";")).exists() for name in named)
    assert "psnr" in lines["metrics"]


def test_evaluate_prints_a_table_or_json(trained, capsys):
    assert main(["evaluate", str(trained / "run"), "--json", str(trained / "figures.json")]) == 0
    table = capsys.readouterr().out
    figures = json.loads((trained / "figures.json").read_text())
    assert set(figures) == {"images", "l1", "psnr", "ssim", "baselines", "seams"}
    assert f"{figures['psnr']:.2f} dB" in table and "mean colour" in table
    assert main(["evaluate", str(trained / "run"), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == figures


@pytest.mark.parametrize("depth", [8, 16])
def test_generate_takes_an_image_of_another_size(trained, tmp_path, depth):
    Image.new("L", (23, 9), 200).save(tmp_path / "in.png")
    assert main(["generate", str(trained / "run"), str(tmp_path / "in.png"), "--out", str(tmp_path / "out"), "--depth", str(depth)]) == 0
    (made,) = (tmp_path / "out").glob("*.png")
    header = read_header(made)
    assert (header.width, header.height, header.stored_bits, header.mode) == (23, 9, depth, "RGB")


def test_a_missing_run_is_bad_input(trained, capsys):
    for words in (["evaluate", str(trained / "rum")], ["generate", str(trained / "rum"), "x.png", "--out", str(trained / "out")]):
        assert main(words) == 2
        assert capsys.readouterr().err.startswith("unetkit: ")
    assert not (trained / "out").exists()


def test_train_passes_its_options_on(trained, monkeypatch):
    calls = []

    def fit(recipe, run=None, **options):
        calls.append((recipe.seed, run, options))
        return SimpleNamespace(exit_status=143)

    monkeypatch.setattr(fitting, "fit", fit)
    words = ["train", str(trained / "tiny.yaml"), "--set", "seed=3", "--run", "here", "--init-from", "there", "--no-recompile"]
    assert main(words) == 143
    assert calls == [(3, "here", {"init_from": "there", "no_recompile": True})]
