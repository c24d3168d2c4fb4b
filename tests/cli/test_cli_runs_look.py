"""`unetkit runs list | show | compare` on real run folders, whole, unfinished, damaged and missing."""

import json

import pytest
from PIL import Image

from unetkit import recipe as recipes
from unetkit import runs
from unetkit.cli import main

RECIPE = {"data": {"source": "emoji"}, "training": {"images": 40, "batch": 10}}


def make(folder, *, rate=0.001, done=True, metrics=((10, 11.0), (20, 13.5), (30, 12.0))):
    recipe = recipes.read({**RECIPE, "name": folder.name, "optimizer": {"name": "adam", "learning_rate": rate}})
    with runs.RunFolder.open(folder, recipes.to_yaml(recipe)) as run:
        run.note_environment(backend="jax", device="cpu", replicas=2)
        for images, psnr in metrics:
            run.log.write({"step": images // 10, "images": images, "loss": 1 / images, "images_per_second": 5.0})
            run.log.write({"step": images // 10, "images": images, "val_psnr": psnr, "val_l1": 0.1})
            run.save(images // 10, images, {"weights": {}}, {"metrics": {"psnr": psnr}})
        if done:
            run.finish({"step": 3, "images": 30})
    return folder


@pytest.fixture
def two(tmp_path):
    make(tmp_path / "runs" / "one")
    make(tmp_path / "runs" / "two", rate=0.01, done=False, metrics=((10, 10.0), (20, float("nan"))))
    (tmp_path / "runs" / "no run").mkdir()
    return tmp_path / "runs"


def test_list_shows_each_run_with_its_best(two, capsys):
    assert main(["runs", "list", str(two)]) == 0
    lines = capsys.readouterr().out.splitlines()
    (one,) = [line for line in lines if line.strip().startswith("one")]
    (other,) = [line for line in lines if line.strip().startswith("two")]
    assert "done" in one and "psnr 13.5" in one and "jax, 2 x cpu" in one
    assert "unfinished, 50%" in other and "psnr 10" in other
    assert main(["runs", "list", str(two), "--json", "-"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["best"], first["best_images"], first["state"]) == (13.5, 20, "done")
    assert (second["images"], second["length"], second["state"]) == (20, 40, "unfinished")


def test_a_damaged_run_is_listed_as_damaged(two, capsys):
    (two / "two" / "stats.jsonl").write_text("[1]\n")
    assert main(["runs", "list", str(two)]) == 0
    printed = capsys.readouterr().out
    assert "damaged" in printed and "psnr 13.5" in printed
    assert main(["runs", "show", str(two / "two")]) == 1
    assert main(["runs", "compare", str(two / "one"), str(two / "two")]) == 2


def test_show_tells_validations_checkpoints_and_starts(two, capsys):
    assert main(["runs", "show", str(two / "one")]) == 0
    printed = capsys.readouterr().out
    assert "psnr 13.5 at 20 images" in printed and "val_l1" in printed and "created" in printed
    assert main(["runs", "show", str(two / "one"), "--json", "-"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [c["step"] for c in content["checkpoints"]] == [2, 3]  # the two newest, the best among them
    assert [line["val_psnr"] for line in content["validations"]] == [11.0, 13.5, 12.0]


def test_compare_tells_figures_and_differing_keys_and_draws_curves(two, tmp_path, capsys):
    words = ["runs", "compare", str(two / "one"), str(two / "two"), "--out", str(tmp_path / "ab.png")]
    assert main([*words, "--json", str(tmp_path / "ab.json")]) == 0
    printed = capsys.readouterr().out
    assert "optimizer.learning_rate" in printed and "0.01" in printed
    content = json.loads((tmp_path / "ab.json").read_text())
    assert content["recipes_differ"] == {"optimizer.learning_rate": [0.001, 0.01]}
    with Image.open(tmp_path / "ab.png") as picture:
        colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 24)}
    assert {(31, 119, 180), (255, 127, 14)} <= colours  # the first two colours of matplotlib: a curve for each run


def test_what_cannot_be_looked_at_is_refused(two, capsys):
    assert main(["runs", "compare", str(two / "one")]) == 2
    assert main(["runs", "show", str(two / "on")]) == 2
    assert "Did you mean" in capsys.readouterr().err
    assert main(["runs", "list", str(two / "no run")]) == 2
