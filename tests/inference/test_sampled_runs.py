"""Runs of flow and diffusion from training to pictures: what decides a picture, and what such a run refuses."""

import keras
import numpy as np
import pytest
from PIL import Image

import unetkit
from unetkit import inference, runs
from unetkit import recipe as recipes
from unetkit.cli import main
from unetkit.data import open_dataset
from unetkit.errors import UserError
from unetkit.inference.sampling import changed


def recipe(objective, **training):
    return {
        "name": "sampled",
        "data": {"source": "emoji", "size": 16, "input_channels": 1, "split": {"limit": 16, "validation": 0.01}},
        "model": {
            "levels": [4, {"channels": 8, "attention": True}],
            "block": "modulated",
            "residual": "add",
            "groups": 2,
            "up": "bilinear_conv",
            "head_norm": True,
            "zero_init": True,
            "output_activation": "linear",
        },
        "objective": {"sampler_steps": 3, **objective},
        "training": {"images": 24, "batch": 8, "ema": 0.9, "ema_warmup": 0.7, **training},
        "optimizer": {"name": "adam", "learning_rate": 1e-2},
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two trained runs: `flow`, outline -> colour, and `diffusion`, from noise alone."""
    folder = tmp_path_factory.mktemp("sampled")
    for kind in ("flow", "diffusion"):
        unetkit.fit(recipe({"kind": kind}), folder / kind, progress=False)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 24, 3), np.uint8)).save(folder / "in.png")
    return folder


def pixels(path):
    with Image.open(path) as image:
        return np.asarray(image).astype(int)


def test_the_run_holds_its_loss_as_metric_its_samples_and_its_network(made):
    for kind in ("flow", "diffusion"):
        run = runs.read(made / kind)
        assert [line for line in run.stats() if "val_loss" in line] and set(run.latest().metrics) == {"loss"}
        assert list((made / kind / "samples").glob("*.png"))
        network = keras.models.load_model(made / kind / "model.keras")
        assert len(network.inputs) == 2


def test_a_picture_is_decided_by_seed_and_number_alone(made, tmp_path):
    three = inference.draw(made / "diffusion", 3, tmp_path / "3", seed=4, batch=2, progress=False)
    five = inference.draw(made / "diffusion", 5, tmp_path / "5", seed=4, batch=5, progress=False)
    other = inference.draw(made / "diffusion", 1, tmp_path / "other", seed=5, progress=False)
    for one, same in zip(three, five[:3], strict=True):
        assert np.abs(pixels(one) - pixels(same)).max() <= 1  # another batch is another program: rounding
    assert (pixels(three[0]) != pixels(three[1])).any() and (pixels(three[0]) != pixels(other[0])).any()
    assert (tmp_path / "5" / "grid.png").exists()


def test_the_command_draws_and_takes_steps(made, tmp_path, capsys):
    words = ["generate", str(made / "diffusion"), "--count", "2", "--seed", "1", "--steps", "2", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["000000.png", "000001.png", "grid.png"]
    assert "2 pictures in" in capsys.readouterr().err


def test_a_conditional_run_takes_images_of_any_size(made, tmp_path):
    (one,) = inference.generate(made / "flow", [made / "in.png"], tmp_path / "a", progress=False)
    (two,) = inference.generate(made / "flow", [made / "in.png"], tmp_path / "b", seed=1, progress=False)
    assert pixels(one).shape == (20, 24, 3) and (pixels(one) != pixels(two)).any()
    figures = inference.evaluate_run(made / "flow")
    assert figures["images"] == 15 and "seams" not in figures
    assert main(["evaluate", str(made / "flow")]) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["generate", "diffusion", "in.png", "--out", "o"], "makes its pictures from noise and takes no images"),
        (["generate", "flow", "--count", "2", "--out", "o"], "makes a picture of each image it is given"),
        (["generate", "flow", "in.png", "--count", "2", "--out", "o"], "one of the two"),
        (["generate", "flow", "--out", "o"], "one of the two"),
        (["generate", "diffusion", "--count", "1", "--guidance", "2", "--out", "o"], "cannot guide this run: it has no condition"),
        (["generate", "diffusion", "--count", "1", "--seed", "-1", "--out", "o"], "--seed: -1 is negative"),
        (["evaluate", "diffusion"], "no truth belongs to one of them"),
        (["export", "flow", "--format", "keras", "--out", "o"], "in 3 steps of a sampler"),
    ],
)
def test_what_such_a_run_cannot_do_is_said_with_what_to_do(made, monkeypatch, capsys, words, told):
    monkeypatch.chdir(made)
    assert main(words) == 2
    assert told in capsys.readouterr().err and not (made / "o").exists()


def test_a_run_that_makes_pictures_in_one_pass_has_no_steps():
    plain = recipes.read({"name": "r", "data": {"source": "emoji"}, "training": {"images": 8}})
    with pytest.raises(UserError, match="--steps: this run's objective is translation, which makes a picture in one pass"):
        changed(plain, steps=3)


def test_an_adversarial_run_trains_exports_and_is_made_with_like_any_other(tmp_path, made):
    gan = {
        **recipe({}),
        "model": {"levels": [4, 8], "groups": 2},
        "objective": {"kind": "adversarial", "discriminator": {"receptive_field": 16, "channels": 4}},
        "logging": {"samples": {"count": 0}},
    }
    result = unetkit.fit(gan, tmp_path / "gan", progress=False)
    assert {"l1", "psnr", "ssim"} == set(result.metrics)
    line = next(line for line in runs.read(tmp_path / "gan").stats() if "discriminator" in line)
    assert {"loss", "l1", "adversarial"} <= set(line)
    inference.export(tmp_path / "gan", "keras", tmp_path / "bundle")
    for source in ("gan", "bundle"):
        inference.generate(tmp_path / source, [made / "in.png"], tmp_path / f"{source}-out", progress=False)
    assert (pixels(tmp_path / "gan-out" / "in.png") == pixels(tmp_path / "bundle-out" / "in.png")).all()


def test_a_run_with_classes_draws_each_and_refuses_others(tmp_path, capsys):
    for name, colour in (("dark", 20), ("light", 235)):
        (tmp_path / "data" / name).mkdir(parents=True)
        for number in range(8):
            Image.new("RGB", (16, 16), (colour, colour + number, colour)).save(tmp_path / "data" / name / f"{number}.png")
    data = {"source": {"kind": "folder", "path": str(tmp_path / "data"), "task": "colorize"}, "size": 16, "classes": ["dark", "light"]}
    asked = {**recipe({"kind": "diffusion", "condition": "class", "guidance": 1.5}), "data": data, "logging": {"samples": {"count": 0}}}
    split = open_dataset(recipes.read(asked).data).train
    batch = next(split.batches(8))
    assert ((batch["target"].mean(axis=(1, 2, 3)) > 0) == (batch["label"] == 1)).all() and len(set(batch["label"])) == 2
    unetkit.fit(asked, tmp_path / "run", progress=False)
    for name in ("dark", "light"):
        words = ["generate", str(tmp_path / "run"), "--count", "2", "--class", name, "--out", str(tmp_path / name)]
        assert main(words) == 0
    assert (pixels(tmp_path / "dark" / "000001.png") != pixels(tmp_path / "light" / "000001.png")).any()
    inference.draw(tmp_path / "run", 2, tmp_path / "both", progress=False)
    assert (pixels(tmp_path / "both" / "000001.png") == pixels(tmp_path / "light" / "000001.png")).all()
    assert main(["generate", str(tmp_path / "run"), "--count", "2", "--class", "grey", "--out", str(tmp_path / "o")]) == 2
    assert "--class: 'grey' is unknown; this run has dark, light" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"source": "emoji", "classes": ["a"]}, "the built-in pairs lie in no folders"),
        ({"classes": ["a"]}, "1 images lie in no folder of a class (a): b"),
        ({"classes": ["a", "b", "c"]}, "no image lies in the folder of c; take it out"),
    ],
)
def test_classes_that_do_not_fit_the_folders_are_refused(tmp_path, data, words):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (16, 16)).save(tmp_path / name / f"{name}.png")
    folder = {"source": {"kind": "folder", "path": str(tmp_path), "task": "colorize"}, "size": 16}
    with pytest.raises(UserError) as caught:
        unetkit.fit({**recipe({"kind": "flow", "condition": "class"}), "data": folder | data}, tmp_path / "run", progress=False)
    assert words in str(caught.value)
