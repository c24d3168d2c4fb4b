"""Everything that a run does, on both engines, asked of one suite."""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unetkit import runs
from unetkit.data.sounds import read_sound, write_sound
from unetkit.runs import checkpoints

PROBE = Path(__file__).with_name("run_probe.py")
BOTH = pytest.mark.parametrize("engine", ["tensorflow", "jax"])

PLAIN = {
    "name": "both",
    "data": {
        "source": "emoji",
        "size": 16,
        "input_channels": 1,
        "split": {"validation": 0.01, "limit": 40},
        "augment": {"flip": "horizontal", "brightness": 0.1},
    },
    "model": {"levels": [4, 8], "groups": 2},
    "optimizer": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9},
    "training": {"images": 160, "batch": 8, "steps_per_call": 3},
    "checkpoint": {"every_images": 8, "keep_last": 20},
    "logging": {"every_images": 8, "validate_every_images": 160, "samples": {"count": 0}},
}
# All at once: dropout, average, accumulation, a schedule with its warm-up, callbacks, pictures.
FULL = {
    **PLAIN,
    "checkpoint": {"every_images": 80},
    "model": {"levels": [4, 8], "groups": 2, "dropout": 0.3},
    "optimizer": {"name": "adamw", "schedule": "cosine", "warmup_images": 32, "clip_norm": 1.0},
    "training": {"images": 160, "batch": 8, "steps_per_call": 3, "ema": 0.8, "accumulate": 2},
    "logging": {"every_images": 24, "validate_every_images": 80, "samples": {"every_images": 80, "count": 2}},
}

SOUND = {
    **PLAIN,
    "data": {
        "source": {"kind": "tones", "count": 48, "task": {"kind": "denoise", "sigma": 0.02}},
        "size": 256,
        "input_channels": 1,
        "target_channels": 1,
        "split": {"validation": 0.2},
    },
    "model": {"rank": 1, "levels": [4, 8], "norm": "none"},
    "checkpoint": {"every_images": 80, "metric": "snr"},
    "logging": {"every_images": 8, "validate_every_images": 80, "samples": {"every_images": 160, "count": 2}},
}


class Worker:
    """One engine in a process of its own."""

    def __init__(self, engine: str, cache: str) -> None:
        environment = {k: v for k, v in os.environ.items() if k not in ("KERAS_BACKEND", "XLA_FLAGS")}
        environment |= {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}  # runs share a program
        self.notes = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `close`); a pipe that nobody reads would fill
        command = [sys.executable, str(PROBE), engine]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.notes, text=True
        )

    def __call__(self, do: str, **asked):
        self.process.stdin.write(json.dumps({"do": do, **asked}, default=str) + "\n")
        self.process.stdin.flush()
        for line in iter(self.process.stdout.readline, ""):
            if line.startswith("answer "):
                return json.loads(line.removeprefix("answer "))
        self.notes.seek(0)
        pytest.fail(self.notes.read()[-3000:])

    def close(self) -> None:
        self.process.communicate()
        self.notes.close()


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    cache = str(tmp_path_factory.mktemp("compiled"))
    workers = {engine: Worker(engine, cache) for engine in ("tensorflow", "jax")}
    yield lambda engine, do, **asked: workers[engine](do, **asked)
    for worker in workers.values():
        worker.close()


@pytest.fixture(scope="module")
def plain(ask, tmp_path_factory):
    """The plain recipe, trained by each engine, with a checkpoint of every step: engine -> run folder."""
    folder = tmp_path_factory.mktemp("plain")
    for engine in ("tensorflow", "jax"):
        assert ask(engine, "fit", recipe=PLAIN, run=folder / engine)["step"] == 20
    return {engine: folder / engine for engine in ("tensorflow", "jax")}


@pytest.fixture(scope="module")
def straight(ask, tmp_path_factory):
    """The full recipe, trained by each engine without a stop: engine -> run folder."""
    folder = tmp_path_factory.mktemp("straight")
    for engine in ("tensorflow", "jax"):
        recipe = {**FULL, "training": {**FULL["training"], "callbacks": [csv_logger(folder / f"{engine}.csv")]}}
        assert ask(engine, "fit", recipe=recipe, run=folder / engine)["status"] == "done"
    return {engine: folder / engine for engine in ("tensorflow", "jax")}


def csv_logger(path: Path) -> dict:
    return {"use": "keras.callbacks:CSVLogger", "args": {"filename": str(path)}}


def logged(path: Path, name: str) -> list[float]:
    return [line[name] for line in runs.read(path).stats() if name in line]


def checkpoint(path: Path, step: int) -> checkpoints.Checkpoint:
    return checkpoints.load(path / "checkpoints" / checkpoints.folder_name(step))


def arrays(path: Path) -> dict[str, np.ndarray]:
    latest = runs.read(path).latest()
    return {f"{group}/{name}": array for group in latest.groups for name, array in latest.arrays(group).items()}


def assert_bit_for_bit(one: Path, other: Path) -> None:
    left, right = arrays(one), arrays(other)
    assert left.keys() == right.keys()
    for name, array in left.items():
        np.testing.assert_array_equal(array, right[name], err_msg=name)
    for name in ("loss", "val_l1", "learning_rate"):
        assert logged(one, name) == logged(other, name), name


def test_the_same_recipe_trains_to_the_same_loss(plain):
    one, other = (logged(plain[engine], "loss") for engine in ("tensorflow", "jax"))
    assert len(one) == len(other) == 20
    assert abs(one[0] - other[0]) <= 1e-5
    np.testing.assert_allclose(one[-1], other[-1], rtol=1e-3)


def test_one_sgd_step_gives_the_same_weights(plain):
    one, other = (checkpoint(plain[engine], 1).arrays("weights") for engine in ("tensorflow", "jax"))
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_allclose(array, other[name], rtol=0, atol=1e-5, err_msg=name)


@BOTH
def test_an_engine_repeats_itself_bit_for_bit_with_dropout_and_through_a_stop(ask, straight, tmp_path, engine):
    cut = tmp_path / "cut"
    assert ask(engine, "fit", recipe=FULL, run=cut, stop_at=9) | {"metrics": None} == {"status": "stopped", "step": 9, "metrics": None}
    assert ask(engine, "fit", recipe=FULL, run=cut)["status"] == "done"
    assert_bit_for_bit(straight[engine], cut)


@BOTH
def test_a_checkpoint_resumes_on_the_other_engine(ask, plain, tmp_path, engine):
    other = {"tensorflow": "jax", "jax": "tensorflow"}[engine]
    moved = tmp_path / "moved"
    shutil.copytree(plain[engine], moved)
    (moved / "DONE").unlink()
    for step in range(10, 21):
        shutil.rmtree(moved / "checkpoints" / checkpoints.folder_name(step))
    assert ask(other, "fit", recipe=PLAIN, run=moved)["status"] == "done"
    assert json.loads((moved / "environment.json").read_text())["backend"] == other
    for name in ("loss", "val_l1", "learning_rate"):
        np.testing.assert_allclose(logged(plain[engine], name), logged(moved, name), rtol=1e-3, err_msg=name)
    assert arrays(plain[engine]).keys() == arrays(moved).keys()


def test_schedules_callbacks_pictures_and_names_are_the_same(straight):
    assert arrays(straight["tensorflow"]).keys() == arrays(straight["jax"]).keys()  # weights, average, optimizer slots
    one, other = straight["tensorflow"], straight["jax"]
    np.testing.assert_allclose(logged(one, "learning_rate"), logged(other, "learning_rate"), rtol=1e-6)
    assert len(set(logged(one, "learning_rate"))) > 3
    assert [sorted(line) for line in runs.read(one).stats()] == [sorted(line) for line in runs.read(other).stats()]
    for path in (one, other):
        with open(path.with_suffix(".csv")) as file:
            assert [row["epoch"] for row in csv.DictReader(file)] == ["0", "1"]
        assert sorted(p.name for p in (path / "samples").iterdir()) == ["images_000000080.png", "images_000000160.png"]
        assert (path / "model.keras").exists() and (path / "curves.png").exists()


def test_evaluate_and_generate_give_the_same_of_one_run(ask, straight, tmp_path):
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (24, 40), np.uint8)).save(tmp_path / "sketch.png")
    figures, pictures = {}, {}
    for engine in ("tensorflow", "jax"):
        figures[engine] = ask(engine, "evaluate", run=straight["tensorflow"])
        ask(engine, "generate", run=straight["tensorflow"], inputs=[tmp_path / "sketch.png"], out=tmp_path / engine)
        (picture,) = (tmp_path / engine).glob("*.png")
        pictures[engine] = np.asarray(Image.open(picture), np.int16)
    for name in ("images", "l1", "psnr", "ssim"):
        assert figures["tensorflow"][name] == pytest.approx(figures["jax"][name], rel=1e-4), name
    assert pictures["jax"].shape[:2] == (24, 40)
    assert np.abs(pictures["tensorflow"] - pictures["jax"]).max() <= 1


def test_signals_train_to_the_same_and_files_of_any_length_come_out_the_same(ask, tmp_path):
    lengths = {"one": 1, "short": 100, "long": 1000}
    for name, count in lengths.items():
        write_sound(tmp_path / f"{name}.wav", np.random.default_rng(count).uniform(-0.3, 0.3, count), 8000)
    figures, heard = {}, {}
    for engine in ("tensorflow", "jax"):
        ended = ask(engine, "fit", recipe=SOUND, run=tmp_path / engine)
        assert ended["status"] == "done" and set(ended["metrics"]) == {"l1", "psnr", "snr"}
        assert (tmp_path / engine / "samples" / "images_000000160.png").exists()
        figures[engine] = ask(engine, "evaluate", run=tmp_path / "tensorflow")
        wavs = [tmp_path / f"{name}.wav" for name in lengths]
        ask(engine, "generate", run=tmp_path / "tensorflow", inputs=wavs, out=tmp_path / f"{engine}-out")
        heard[engine] = {name: read_sound(tmp_path / f"{engine}-out" / f"{name}.wav", 8000) for name in lengths}
    one, other = (logged(tmp_path / engine, "loss") for engine in ("tensorflow", "jax"))
    assert abs(one[0] - other[0]) <= 1e-5
    np.testing.assert_allclose(one[-1], other[-1], rtol=1e-3)
    for name in ("l1", "psnr", "snr"):
        assert figures["tensorflow"][name] == pytest.approx(figures["jax"][name], rel=1e-4, abs=1e-4), name
    for name, count in lengths.items():
        assert heard["jax"][name].shape == (count, 1)
        assert np.abs(heard["tensorflow"][name] - heard["jax"][name]).max() <= 2**-14
