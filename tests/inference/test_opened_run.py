"""A real run folder, opened to make pictures and to measure: trust, weights, sizes, damage."""

import shutil

import keras
import numpy as np
import pytest
from PIL import Image

from unetkit import build, inference, recipe, runs
from unetkit.errors import UserError
from unetkit.inference.evaluation import table

TINY = {
    "name": "tiny",
    "data": {"source": "emoji", "size": 16, "input_channels": 1, "split": {"limit": 12}},
    "model": {"levels": [4, 8], "groups": 2},
    "training": {"images": 32, "batch": 8, "ema": 0.9},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run with two checkpoints, the first of which was better, and the network its average stands for."""
    path = tmp_path_factory.mktemp("runs") / "tiny"
    read = recipe.read(TINY)
    net = build.network(read)
    weights = {v.path: keras.ops.convert_to_numpy(v.value) for v in net.variables}
    average = {name: 0.5 * value for name, value in weights.items()}
    with runs.RunFolder.open(path, recipe.to_yaml(read)) as run:
        run.save(2, 16, {"weights": weights, "ema": average, "optimizer": {}}, {"metrics": {"psnr": 9.0}})
        run.save(4, 32, {"weights": average, "ema": weights, "optimizer": {}}, {"metrics": {"psnr": 8.0}})
        run.finish({"step": 4, "images": 32})
    build.assign_network(net, average)
    return path, net


def test_the_best_average_makes_the_pictures(made):
    path, net = made
    restored = inference.open_run(path)
    assert (restored.step, restored.averaged, restored.multiple_of, restored.messages) == (2, True, 2, ())
    images = np.random.default_rng(0).uniform(-1, 1, (3, 16, 16, 1)).astype(np.float32)
    np.testing.assert_allclose(restored.network().predict_on_batch(images), net.predict_on_batch(images), atol=1e-6)


def test_an_image_of_a_size_never_trained_on(made, tmp_path):
    path, net = made
    Image.new("L", (21, 15), 90).save(tmp_path / "a.png")
    Image.new("L", (16, 16), 90).save(tmp_path / "b.png")
    moved = shutil.copytree(path, tmp_path / "moved")
    one, two = inference.generate(moved, [tmp_path / "a.png", tmp_path / "b.png"], tmp_path / "out", progress=False)
    with Image.open(one) as image:
        assert image.size == (21, 15) and image.mode == "RGB"
    expected = net.predict_on_batch(np.full((1, 16, 16, 1), 90 / 127.5 - 1, np.float32))[0]
    with Image.open(two) as image:
        np.testing.assert_allclose(np.asarray(image), (expected + 1) * 127.5, atol=0.51)


def test_evaluating_uses_every_validation_image(made):
    path, _ = made
    figures = inference.evaluate_run(path)
    assert figures["images"] == 149 and figures["images"] % 8, "the last batch is a ragged one"
    assert 0 < figures["l1"] < 1 and 0 < figures["psnr"] < 20 and list(figures["baselines"]) == ["input", "mean_color", "mean_image"]
    assert figures["seams"].keys() == {"tile", "overlap", "window", "border", "interior", "ratio"} and figures["seams"]["ratio"] > 0
    text = table(figures)
    for shown in (
        "149 images",
        f"{figures['psnr']:.2f} dB",
        f"{figures['baselines']['mean_image']['ssim']:.3f}",
        "the input itself",
        "window hann",
    ):
        assert shown in text
    assert "tiles of 16 x 16, window hann: error at their borders" in text


def test_a_damaged_best_checkpoint_is_told(made, tmp_path, capsys):
    copy = shutil.copytree(made[0], tmp_path / "r")
    (copy / "checkpoints" / "step_00000002" / "ema.npz").write_bytes(b"")
    assert inference.open_run(copy).step == 4
    assert "step_00000002, ema.npz has 0 bytes" in capsys.readouterr().err


def test_code_in_a_run_is_not_imported_without_leave(made, tmp_path, monkeypatch):
    copy = shutil.copytree(made[0], tmp_path / "r")
    (tmp_path / "surprise.py").write_text("raise SystemExit('this code must not run')")
    monkeypatch.syspath_prepend(tmp_path)
    text = (copy / "recipe.yaml").read_text()
    assert "block: conv" in text
    (copy / "recipe.yaml").write_text(text.replace("block: conv", "block: surprise:Block"))
    for work in (inference.open_run, inference.evaluate_run):
        with pytest.raises(UserError, match=r"model\.block: surprise:Block"):
            work(copy)
    with pytest.raises(SystemExit, match="must not run"):
        inference.open_run(copy, allow_code=True).network()


def test_a_run_without_a_checkpoint_says_so(tmp_path):
    runs.RunFolder.open(tmp_path / "r", recipe.to_yaml(recipe.read(TINY))).close()
    with pytest.raises(UserError, match="no checkpoint yet"):
        inference.open_run(tmp_path / "r")
