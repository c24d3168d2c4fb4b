"""Bundles: each format by its own runtime gives what the network gives, and needs no recipe."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from PIL import Image

from unetkit import build, inference, recipe, runs
from unetkit.cli import main
from unetkit.data.images import read_image
from unetkit.errors import UserError
from unetkit.inference import formats

TINY = {
    "name": "tiny",
    "data": {"source": "emoji", "size": 16, "input_channels": 1},
    "model": {"levels": [4, 8], "groups": 2},
    "training": {"images": 32, "batch": 8, "ema": 0.9},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with `run`, a picture `in.png`, and the folder `expected` of what the run makes of it."""
    folder = tmp_path_factory.mktemp("bundles")
    read = recipe.read(TINY)
    net = build.network(read)
    rng = np.random.default_rng(0)
    weights = {v.path: keras.ops.convert_to_numpy(v.value) + rng.normal(0, 0.2, v.shape).astype("f4") for v in net.variables}
    average = {v.path: 0.5 * weights[v.path] for v in net.trainable_variables}
    with runs.RunFolder.open(folder / "run", recipe.to_yaml(read)) as run:
        run.save(4, 32, {"weights": weights, "ema": average, "optimizer": {}}, {"metrics": {"psnr": 9.0}})
        run.finish({"step": 4, "images": 32})
    Image.fromarray(rng.integers(0, 256, (25, 40), np.uint8)).save(folder / "in.png")
    inference.generate(folder / "run", [folder / "in.png"], folder / "expected", depth=16, progress=False)
    return folder


def error(made, out) -> float:
    """Of the picture in `out`, in [-1, 1]."""
    return np.abs(read_image(out / "in.png") - read_image(made / "expected" / "in.png")).max()


@pytest.fixture(scope="module")
def bundle(made):
    """Makes the bundle of a format, once."""

    def export(name):
        if not (made / name).exists():
            assert main(["export", str(made / "run"), "--format", name, "--out", str(made / name)]) == 0
        return made / name

    return export


@pytest.mark.parametrize("name", ["keras", "savedmodel", "onnx", "litert"])
def test_a_bundle_makes_the_picture_that_the_run_makes(made, bundle, name):
    inference.generate(bundle(name), [made / "in.png"], made / f"{name}-out", depth=16, progress=False)
    assert error(made, made / f"{name}-out") < 1e-4


def test_a_bundle_says_how_it_is_used(bundle):
    said = json.loads((bundle("keras") / "bundle.json").read_text())
    wanted = {"tile": [16, 16], "overlap": [8, 8], "window": "hann", "multiple_of": 2, "value_range": [-1, 1], "weights": "average"}
    assert wanted.items() <= said.items() and "GroupNorm" in said["looks_everywhere"]


ALONE = """
import sys
from unetkit import inference
for name in sys.argv[2:]:
    inference.generate(f"{sys.argv[1]}/{name}", [f"{sys.argv[1]}/in.png"], f"{sys.argv[1]}/{name}-alone", depth=16, progress=False)
print([module for module in ("keras", "tensorflow", "jax") if module in sys.modules])
"""


def test_onnx_and_litert_load_neither_keras_nor_an_engine(made, bundle):
    names = [bundle(name).name for name in ("onnx", "litert")]
    run = subprocess.run([sys.executable, "-c", ALONE, str(made), *names], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
    assert all(error(made, made / f"{name}-alone") < 1e-4 for name in names)


def test_stablehlo_is_written_and_run_by_jax(made):
    env = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    code = "import sys; from unetkit.cli import main; sys.exit(main(sys.argv[1:4] + ['stablehlo', '--out', sys.argv[4]]) or main("
    code += "['generate', sys.argv[4], sys.argv[5], '--out', sys.argv[6], '--depth', '16']))"
    arguments = ["export", str(made / "run"), "--format", str(made / "hlo"), str(made / "in.png"), str(made / "hlo-out")]
    run = subprocess.run([sys.executable, "-c", code, *arguments], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert error(made, made / "hlo-out") < 1e-4


def test_what_cannot_be_written_is_told_before_any_work(made, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"stablehlo is written by Keras on jax, which does not run here: .*already loaded with tensorflow"):
        inference.export(made / "run", "stablehlo", tmp_path / "b")
    with pytest.raises(UserError, match="'tflite' is none of keras, savedmodel, onnx, stablehlo, litert"):
        inference.export(made / "run", "tflite", tmp_path / "b")
    with pytest.raises(UserError, match="exists and is not overwritten"):
        inference.export(made / "run", "keras", tmp_path)
    onnx = formats.FORMATS["onnx"]
    monkeypatch.setitem(onnx.write_needs, "a_module_that_is_not_here", "'unetkit[export]'")
    with pytest.raises(UserError, match=r"to write onnx, install what is missing: pip install 'unetkit\[export\]'"):
        inference.export(made / "run", "onnx", tmp_path / "b")
    assert not list(tmp_path.iterdir())


def test_raw_weights_other_tiles_and_damage(made, tmp_path):
    inference.export(made / "run", "keras", tmp_path / "b", tile=32, average=False)
    said = json.loads((tmp_path / "b" / "bundle.json").read_text())
    assert (said["weights"], said["tile"]) == ("raw", [32, 32])
    inference.generate(tmp_path / "b", [made / "in.png"], tmp_path / "out", depth=16, progress=False)
    assert error(made, tmp_path / "out") > 1e-2
    with pytest.raises(UserError, match=r"is fixed to tiles of \[32, 32\], 1 at once"):
        inference.generate(tmp_path / "b", [made / "in.png"], tmp_path / "out", tile=16, progress=False)
    (tmp_path / "b" / "bundle.json").write_text(json.dumps(said | {"code": ["surprise:Block"]}))
    with pytest.raises(UserError, match=r"names code, surprise:Block; --allow-code imports it"):
        inference.generate(tmp_path / "b", [made / "in.png"], tmp_path / "out", progress=False)
    (tmp_path / "b" / "bundle.json").write_text(json.dumps(said))
    (tmp_path / "b" / "model.keras").write_bytes(b"PK")
    with pytest.raises(UserError, match=r"model\.keras cannot be opened as keras: "):
        inference.generate(tmp_path / "b", [made / "in.png"], tmp_path / "out", progress=False)
    for wrong in ({"multiple_of": 0}, {"tile": [9, 64, 64]}, {"batch": 0}):
        (tmp_path / "b" / "bundle.json").write_text(json.dumps(said | wrong))
        with pytest.raises(UserError, match=r"bundle\.json is damaged: .*multiple_of, batch, tile or overlap"):
            inference.generate(tmp_path / "b", [made / "in.png"], tmp_path / "out", progress=False)
    (tmp_path / "b" / "bundle.json").write_text('{"format": "keras"}')
    with pytest.raises(UserError, match=r"bundle\.json is damaged: .*Export the run again"):
        inference.generate(tmp_path / "b", [made / "in.png"], tmp_path / "out", progress=False)


def test_what_cannot_be_done_is_told_before_the_network_is_built(made, tmp_path, capsys, monkeypatch):
    def build_network(*args, **settings):
        raise AssertionError("a network was built")

    monkeypatch.setattr(build, "network", build_network)
    run, image = str(made / "run"), str(made / "in.png")
    for words, told in (
        (["generate", run, image, "--out", str(tmp_path / "o"), "--tile", "9"], "tile: 9 cannot be halved once"),
        (["export", run, "--format", "onnx", "--out", str(tmp_path / "o"), "--tile", "9"], "tile: 9 cannot be halved once"),
        (["generate", run, image, "--out", str(tmp_path / "o"), "--enlarged"], "--enlarged is for runs trained by super_resolve"),
        (["compare", str(made), str(made), "--values", "bytes"], "name it with --features FILE"),
    ):
        assert main(words) == 2
        assert told in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_a_bundle_without_its_network_says_so(made, tmp_path, capsys):
    (tmp_path / "b").mkdir()
    said = {"format": "onnx", "receptive_radius": [3, 3], "multiple_of": 2, "looks_everywhere": None, "batch": 1, "tile": [16, 16]}
    said |= {"input_channels": 1, "output_channels": 3, "overlap": [8, 8], "window": "exact", "background": [255, 255, 255]}
    (tmp_path / "b" / "bundle.json").write_text(json.dumps(said | {"enlarge": 1, "fingerprint": "0", "code": []}))
    assert main(["generate", str(tmp_path / "b"), str(made / "in.png"), "--out", str(tmp_path / "o")]) == 2
    assert "lacks its network, model.onnx. Export the run again" in capsys.readouterr().err
