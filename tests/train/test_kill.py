"""A run that is really killed, several times at random moments, ends bit for bit as one that never was."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import yaml

from unetkit import recipe as recipes
from unetkit import runs

RECIPE = {
    "name": "killed",
    "data": {"source": "emoji", "size": 16, "input_channels": 1, "target_channels": 3, "split": {"validation": 0.01, "limit": 64}},
    "model": {"levels": [8, 16], "groups": 2, "dropout": 0.2},
    "training": {"images": 3200, "batch": 8, "steps_per_call": 2, "ema": 0.9},
    "checkpoint": {"every_images": 16},
    "logging": {"every_images": 40, "validate_every_images": 1600, "samples": {"every_images": 1600, "count": 1}},
}


def start(tmp_path, run):
    path = tmp_path / "killed.yaml"
    path.write_text(yaml.safe_dump(RECIPE))
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
    command = [sys.executable, "-m", "unetkit", "train", str(path), "--run", str(run)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def progress(run):
    """Step of the newest checkpoint folder, complete or not."""
    return max((int(p.name.split("_")[1]) for p in (run / "checkpoints").glob("step_*")), default=-1)


def final(run):
    checkpoint = runs.read(run).latest()
    log = [{k: v for k, v in line.items() if k not in ("images_per_second", "input_wait_share")} for line in runs.read(run).stats()]
    return checkpoint.step, {f"{g}/{n}": a for g in checkpoint.groups for n, a in checkpoint.arrays(g).items()}, log


def test_killed_run_ends_bit_identical(tmp_path):
    recipes.read(RECIPE)
    straight = start(tmp_path, tmp_path / "straight")
    assert straight.wait(300) == 0, straight.stderr.read()

    rng = random.Random(int(os.environ.get("UNETKIT_KILL_SEED", "7")))
    run, reached = tmp_path / "killed", []
    for _ in range(3):
        process = start(tmp_path, run)
        before = progress(run)
        while progress(run) <= before and process.poll() is None:  # past the start-up, into the steps and saves
            time.sleep(0.005)
        time.sleep(rng.uniform(0.0, 0.4))
        process.send_signal(signal.SIGKILL)
        assert process.wait(300) == -signal.SIGKILL, "the run ended before it could be killed"
        process.stderr.close()
        reached.append(progress(run))
    assert reached == sorted(reached) and reached[-1] < 400, reached

    last = start(tmp_path, run)
    assert last.wait(300) == 0, last.stderr.read()
    assert "resuming" in last.stderr.read()
    straight.stderr.close(), last.stderr.close()
    (step, arrays, log), (other_step, other, other_log) = final(tmp_path / "straight"), final(run)
    assert step == other_step == 400
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)
    assert log == other_log
