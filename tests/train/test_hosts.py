"""Several hosts on one machine: real processes over JAX's distributed runtime and the loopback, one result."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import yaml

from unetkit import recipe as recipes
from unetkit import runs
from unetkit.data import open_dataset
from unetkit.errors import UserError
from unetkit.recipe import schema
from unetkit.runs import checkpoints
from unetkit.train.hosts import Hosts, open_hosts, weighted_mean

STEPS = 20
RECIPE = {
    "name": "hosts",
    "backend": "jax",
    "data": {"source": "emoji", "size": 16, "input_channels": 1, "split": {"validation": 0.01, "limit": 60}},
    "model": {"levels": [4], "norm": "batch"},
    "optimizer": {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9},
    "training": {"images": 8 * STEPS, "batch": 8, "accumulate": 2, "steps_per_call": 2, "ema": 0.9},
    "checkpoint": {"every_images": 16, "keep_last": 2000},
    "logging": {"every_images": 16, "validate_every_images": 80, "samples": {"every_images": 160, "count": 1}},
    "hardware": {"device": "cpu", "replicas": 1},
}


def start(tmp_path, folders, **changes):
    """One process per folder; each host is told its own."""
    path = tmp_path / "hosts.yaml"
    path.write_text(yaml.safe_dump({**RECIPE, **changes}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = {k: v for k, v in os.environ.items() if k not in ("KERAS_BACKEND", "XLA_FLAGS")}
    environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # each process compiles for itself, which takes longer than the steps
    processes = []
    for host, folder in enumerate(folders):
        command = [sys.executable, "-m", "unetkit", "train", str(path), "--run", str(folder)]
        if len(folders) > 1:
            environment |= {"JAX_NUM_PROCESSES": str(len(folders)), "JAX_PROCESS_ID": str(host), "JAX_COORDINATOR_ADDRESS": address}
        with open(tmp_path / f"host{host}.err", "w") as notes:
            processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=notes))
    return processes


def ended(tmp_path, processes):
    statuses = [process.wait(300) for process in processes]
    notes = [(tmp_path / f"host{host}.err").read_text() for host in range(len(processes))]
    return statuses, notes


def train(tmp_path, folders):
    statuses, notes = ended(tmp_path, start(tmp_path, folders))
    assert not any(statuses), "\n".join(note[-1500:] for note in notes)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    path = tmp_path_factory.mktemp("alone")
    train(path, [path / "run"])
    return path / "run"


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two hosts; the second is told a folder of its own, and must not make it."""
    path = tmp_path_factory.mktemp("two")
    train(path, [path / "run", path / "others"])
    return path / "run"


def state(path):
    latest = runs.read(path).latest()
    assert latest.step == STEPS
    return {f"{group}/{name}": array for group in latest.groups for name, array in latest.arrays(group).items()}


def log(path):
    return [{k: v for k, v in line.items() if k not in ("images_per_second", "input_wait_share")} for line in runs.read(path).stats()]


def assert_same(one, other, tolerance):
    left, right = state(one), state(other)
    assert left.keys() == right.keys()
    for name, array in left.items():
        np.testing.assert_allclose(array, right[name], rtol=tolerance, atol=tolerance, err_msg=name)
    assert len(log(one)) == len(log(other))
    for line, expected in zip(log(one), log(other), strict=True):
        assert line == pytest.approx(expected, rel=max(tolerance, 1e-12), abs=tolerance)


def test_two_hosts_give_the_result_of_one_and_only_the_first_writes(alone, two):
    assert_same(two, alone, 1e-5)
    assert not (two.parent / "others").exists()
    assert (two / "DONE").exists() and (two / "model.keras").exists() and len(list((two / "samples").iterdir())) == 1
    assert json.loads((two / "environment.json").read_text())["hosts"] == 2


def test_four_hosts_go_on_with_what_two_began(alone, two, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(two, run)
    (run / "DONE").unlink()
    for step in range(12, STEPS + 1, 2):
        shutil.rmtree(run / "checkpoints" / checkpoints.folder_name(step))
    train(tmp_path, [run] * 4)
    assert_same(run, alone, 1e-5)


def test_a_host_that_dies_ends_the_others_and_the_whole_resumes_bit_for_bit(two, tmp_path):
    run, longer = tmp_path / "run", {"training": {**RECIPE["training"], "images": 8 * 4000}}
    for victim, survivor in ((1, 0), (0, 1)):
        processes = start(tmp_path, [run, run], **longer)  # far from its end when it is killed
        before = newest(run)
        while newest(run) <= before and all(process.poll() is None for process in processes):
            time.sleep(0.01)
        processes[victim].send_signal(signal.SIGKILL)
        statuses, notes = ended(tmp_path, processes)
        assert statuses[victim] == -signal.SIGKILL, notes[victim][-1500:]
        assert statuses[survivor] != 0
        assert "another host ha" in words(tmp_path / f"host{survivor}.err", "resumes from there")
        for folder in (run / "checkpoints").glob("step_*"):  # cut back to where both runs have the same length
            if int(folder.name.split("_")[1]) > STEPS // 2:
                shutil.rmtree(folder)
        assert newest(run) > 0
    train(tmp_path, [run, run])
    assert_same(run, two, 0.0)


def words(path, awaited):
    """What was written; the last of it may come from the watcher, a moment after the host's end."""
    for _ in range(600):
        if awaited in path.read_text():
            break
        time.sleep(0.1)
    return path.read_text()


def newest(run):
    return max((checkpoints.step_of(p) for p in (run / "checkpoints").glob("step_*") if checkpoints.is_complete(p)), default=-1)


def test_each_host_reads_only_its_rows_and_all_of_them_every_sample_once():
    split = open_dataset(recipes.read(RECIPE).data).train
    count, batch, accumulate = len(split), 12, 3
    whole = split.batches(batch)
    shares = [split.batches(batch, rows=Hosts(2, host).rows(batch, accumulate)) for host in (0, 1)]
    read = []
    for share in shares:
        pair = share._fill
        share._fill = lambda k, *out, pair=pair: (read.append(k), pair(k, *out))
    for number in range(3):
        expected, parts = next(whole), [next(share) for share in shares]
        shape = expected["target"].shape
        micro = [part["target"].reshape(accumulate, batch // accumulate // 2, *shape[1:]) for part in parts]
        np.testing.assert_array_equal(np.concatenate(micro, axis=1).reshape(shape), expected["target"], err_msg=str(number))
    for batches in (whole, *shares):
        batches.close()
    assert len(read) == len(set(read)) and count == 60
    assert sorted(k for host in (0, 1, 2, 3) for k in Hosts(4, host).rows(60, 5)) == list(range(60))


def test_hosts_evaluate_every_image_once():
    split = open_dataset(recipes.read(RECIPE).data).validation
    shares = [split.share(host, 4) for host in range(4)]
    seen = [batch["target"][row] for share in shares for batch, real in share.every(3) for row in range(real)]
    assert len(seen) == len(split) == sum(map(len, shares))
    assert len({target.tobytes() for target in seen}) == len({split.pair(i)["target"].tobytes() for i in range(len(split))})
    assert weighted_mean([({"l1": 1.0}, 3), ({}, 0), ({"l1": 2.0}, 1)]) == {"l1": 1.25}


@pytest.mark.parametrize(
    ("keys", "variables", "words"),
    [
        ({"hosts": 2, "host": 0}, {}, r"hosts: 2.*coordinator.*JAX_COORDINATOR_ADDRESS"),
        ({"hosts": 2, "coordinator": "127.0.0.1:1"}, {}, r"host \(0, 1, \.\.\.\).*is not given"),
        ({"hosts": 2, "host": 2, "coordinator": "127.0.0.1:1"}, {}, "numbered 0 to 1"),
        ({}, {"JAX_NUM_PROCESSES": "two"}, "JAX_NUM_PROCESSES is 'two'"),
    ],
)
def test_what_is_not_said_about_the_hosts_is_asked_for(monkeypatch, keys, variables, words):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=words):
        open_hosts(schema.Hardware(**keys), "jax")


@pytest.mark.parametrize("variables", [{"KERAS_DISTRIBUTION_NUM_PROCESSES": "4"}, {"TPU_WORKER_HOSTNAMES": "10.0.0.2,10.0.0.3"}])
def test_tensorflow_on_several_hosts_is_refused_with_the_reason_and_the_way(monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=r"one host.*MultiWorkerMirroredStrategy.*20585.*93618.*backend=jax"):
        open_hosts(schema.Hardware(), "tensorflow")


def test_a_recipe_of_several_hosts_needs_jax_and_a_batch_that_they_share():
    with pytest.raises(UserError, match="several hosts need JAX"):
        recipes.read({**RECIPE, "backend": "tensorflow", "hardware": {"hosts": 2}})
    with pytest.raises(UserError, match=r"hosts 3; the nearest that can: 6 and 12"):
        recipes.read({**RECIPE, "hardware": {"hosts": 3}})
