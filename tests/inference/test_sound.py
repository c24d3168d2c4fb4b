"""Networks of signals on WAV files: any length, rate and kind of file; bad ones named; bundles in every format."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from unetkit import build, inference, recipe, runs
from unetkit.cli import main
from unetkit.data.sounds import read_sound, write_sound
from unetkit.data.wav import read_header
from unetkit.errors import UserError, WorkError

RATE = 8000
TINY = {
    "name": "sound",
    "data": {
        "source": {"kind": "tones", "count": 20, "task": "denoise"},
        "size": 64,
        "input_channels": 1,
        "target_channels": 1,
    },
    "model": {"rank": 1, "levels": [4, 8], "norm": "none"},
    "training": {"images": 32, "batch": 8, "ema": 0.9},
}
LENGTHS = {"one": 1, "short": 40, "window": 64, "odd": 301}


def make_run(path, read):
    net = build.network(read)
    rng = np.random.default_rng(0)
    weights = {v.path: keras.ops.convert_to_numpy(v.value) + rng.normal(0, 0.2, v.shape).astype("f4") for v in net.variables}
    with runs.RunFolder.open(path, recipe.to_yaml(read)) as run:
        run.save(4, 32, {"weights": weights, "optimizer": {}}, {"metrics": {"psnr": 9.0}})
        run.finish({"step": 4, "images": 32})
    return net, weights


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """`run`, the folder `in` of signals of several lengths, and `expected`, what the run makes of them."""
    folder = tmp_path_factory.mktemp("sound")
    make_run(folder / "run", recipe.read(TINY))
    (folder / "in").mkdir()
    for name, count in LENGTHS.items():
        write_sound(folder / "in" / f"{name}.wav", np.random.default_rng(count).uniform(-0.5, 0.5, count), RATE)
    inference.generate(folder / "run", [folder / "in"], folder / "expected", depth=32, no_recompile=True, progress=False)
    return folder


def heard(path) -> np.ndarray:
    return read_sound(path, RATE)


def test_every_length_comes_back_as_long_as_one_pass_would_make_it(made):
    restored = build.restore(made / "run")
    for name, count in LENGTHS.items():
        found = heard(made / "expected" / f"{name}.wav")
        assert found.shape == (count, 1)
    x = heard(made / "in" / "odd.wav")
    whole = restored.network(302)(np.pad(x, ((0, 1), (0, 0)), mode="reflect")[None]).numpy()[0, :301]
    np.testing.assert_allclose(heard(made / "expected" / "odd.wav"), whole, atol=1e-4)


def test_files_of_other_kinds_are_read_as_the_recipe_reads_them(made, tmp_path):
    x = np.random.default_rng(1).uniform(-0.5, 0.5, (200, 2))
    (tmp_path / "in").mkdir()
    write_sound(tmp_path / "in" / "stereo.wav", x, RATE, 32)
    write_sound(tmp_path / "mono.wav", x.mean(axis=1), RATE, 32)
    write_sound(tmp_path / "in" / "fast.wav", np.sin(np.arange(500) * 0.1), 2 * RATE, 24)
    inference.generate(made / "run", [tmp_path / "in", tmp_path / "mono.wav"], tmp_path / "out", progress=False)
    assert np.abs(heard(tmp_path / "out" / "stereo.wav") - heard(tmp_path / "out" / "mono.wav")).max() <= 2**-15
    headers = {path.stem: read_header(path) for path in (tmp_path / "out").glob("*.wav")}
    assert {name: (h.frames, h.rate, h.bits) for name, h in headers.items()} == {
        "stereo": (200, RATE, 16),
        "mono": (200, RATE, 16),
        "fast": (250, RATE, 16),
    }


def test_an_unreadable_file_in_the_middle_is_named_and_the_rest_done(made, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    for name in ("a", "c", "e"):
        write_sound(tmp_path / "in" / f"{name}.wav", np.zeros(30), RATE)
    (tmp_path / "in" / "b.wav").write_bytes(b"RIFF....WAVEjunk")
    (tmp_path / "in" / "d.wav").write_bytes((tmp_path / "in" / "a.wav").read_bytes()[:20] + b"\3\0" + bytes(30))
    nan = bytearray((made / "expected" / "odd.wav").read_bytes())
    nan[44:48] = np.float32("nan").tobytes()
    (tmp_path / "in" / "f.wav").write_bytes(nan)
    assert main(["generate", str(made / "run"), str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert "3 of 6 WAV files could not be used" in told
    assert "b.wav: damaged" in told and "d.wav: " in told and "f.wav: holds values that are no numbers" in told
    assert sorted(path.name for path in (tmp_path / "out").glob("*.wav")) == ["a.wav", "c.wav", "e.wav"]


def test_what_cannot_work_is_refused(made, tmp_path):
    read = recipe.read(TINY, ["data.source={kind: synthetic, rank: 1}"])
    make_run(tmp_path / "noise", read)
    with pytest.raises(UserError, match="synthetic has no sound to learn from"):
        inference.generate(tmp_path / "noise", [made / "in"], tmp_path / "out", progress=False)
    with pytest.raises(UserError, match="12 bits per sample cannot be written"):
        inference.generate(made / "run", [made / "in"], tmp_path / "out", depth=12, progress=False)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no WAV files in"):
        inference.generate(made / "run", [tmp_path / "empty"], tmp_path / "out", progress=False)
    two = recipe.read(
        TINY, ["data.source={kind: sound, path: a, rate: 8000, task: denoise}", "data.input_channels=2", "data.target_channels=2"]
    )
    make_run(tmp_path / "two", two)
    with pytest.raises(WorkError, match=r"odd\.wav: is mono; the network takes 2 channels"):
        inference.generate(tmp_path / "two", [made / "in" / "odd.wav"], tmp_path / "out", progress=False)
    assert not list((tmp_path / "out").glob("*.wav"))


@pytest.mark.parametrize("name", ["keras", "savedmodel", "onnx", "litert"])
def test_a_bundle_of_signals_gives_what_the_run_gives(made, name):
    assert main(["export", str(made / "run"), "--format", name, "--out", str(made / name)]) == 0
    said = json.loads((made / name / "bundle.json").read_text())
    assert (said["tile"], said["sound"]) == ([64], {"rate": RATE, "channel": "mean"})
    inference.generate(made / name, [made / "in"], made / f"{name}-out", depth=32, progress=False)
    for path in (made / "expected").glob("*.wav"):
        np.testing.assert_allclose(heard(made / f"{name}-out" / path.name), heard(path), atol=1e-4)


def test_stablehlo_and_a_run_of_the_other_engine(made):
    code = (
        "import sys; from unetkit.cli import main; r, b, i, o = sys.argv[1:];"
        "sys.exit(main(['export', r, '--format', 'stablehlo', '--out', b]) or main(['generate', b, i, '--out', o, '--depth', '32']))"
    )
    arguments = [str(made / name) for name in ("run", "stablehlo", "in", "stablehlo-out")]
    env = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    ended = subprocess.run([sys.executable, "-c", code, *arguments], env=env, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    for path in (made / "expected").glob("*.wav"):
        np.testing.assert_allclose(heard(made / "stablehlo-out" / path.name), heard(path), atol=1e-4)


def test_evaluate_says_snr_beside_the_trivial_answers(made, capsys):
    assert main(["evaluate", str(made / "run"), "--json", str(made / "figures.json")]) == 0
    figures = json.loads((made / "figures.json").read_text())
    assert figures["signals"] == 2 and set(figures["baselines"]) == {"input", "silence"}
    assert {"l1", "psnr", "snr"} <= set(figures) and "ssim" not in figures
    assert figures["baselines"]["silence"]["snr"] == pytest.approx(0, abs=1e-9)
    assert figures["seams"]["tile"] == [64]
    printed = capsys.readouterr().out
    assert "SNR" in printed and "silence" in printed and "SSIM" not in printed
