"""Run folders and data in a bucket. No bucket can be had here: `ram://`, TensorFlow's own file system in memory, stands for one
behind the real `tf.io.gfile`, made to refuse what an object store refuses, and its copies to die halfway."""

import json
import os
import shutil
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import unetkit
from unetkit import buckets, runs
from unetkit import recipe as recipes
from unetkit.data import open_dataset
from unetkit.errors import UserError, WorkError

WRITES = ("copy", "rename", "remove", "makedirs")


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


class Store:
    """`tf.io.gfile` with the manners of an object store. `calls_left`: writes until it fails with `error`, a copy after half its bytes."""

    def __init__(self):
        self.calls_left, self.error, self.calls = None, Killed, []

    def __getattr__(self, name):
        real = getattr(tf.io.gfile, name)
        return (lambda *args, **options: self._write(name, real, *args, **options)) if name in WRITES else real

    def _write(self, name, real, *args, **options):
        sending = args[-1].startswith("ram://") or name == "remove"
        if sending and self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                if name == "copy":
                    with open(args[0], "rb") as whole, tf.io.gfile.GFile(args[1], "wb") as part:
                        content = whole.read()
                        part.write(content[: len(content) // 2])
                raise self.error()
        assert name != "rename" or not tf.io.gfile.isdir(args[0]), "an object store cannot rename folders"
        if sending:
            self.calls.append((name, args[-1]))
        return real(*args, **options)


@pytest.fixture
def store(monkeypatch, tmp_path):
    made = Store()
    monkeypatch.setattr(buckets, "gfile", lambda: made)
    monkeypatch.setenv("UNETKIT_CACHE_DIR", str(tmp_path / "cache"))
    return made


@pytest.fixture
def address(request):
    place = f"ram://bucket/{request.node.name}"
    yield place
    if tf.io.gfile.exists(place):
        tf.io.gfile.rmtree(place)


def save(mirror, recipe, arrays, step):
    """Trains nothing: opens the local copy, saves the checkpoint of a step in it, and sends."""
    with runs.RunFolder.open(mirror.place, recipe()) as run:
        run.log.write({"step": step, "images": 10 * step})
        run.save(step, 10 * step, arrays(step), {})
        mirror.push()


def elsewhere(address, said=print):
    """The run as another machine finds it."""
    mirror = buckets.Mirror(address, said)
    shutil.rmtree(mirror.place, ignore_errors=True)
    return mirror, mirror.pull()


def test_killed_at_any_call_the_bucket_still_has_a_whole_checkpoint(store, address, recipe, arrays):
    for calls in range(200):
        if tf.io.gfile.exists(address):
            tf.io.gfile.rmtree(address)
        mirror, _ = elsewhere(address)
        for step in (1, 2, 3):
            save(mirror, recipe, arrays, step)
        store.calls_left = calls
        try:
            save(mirror, recipe, arrays, 4)
            finished = True
        except Killed:
            finished = False
        store.calls_left = None
        _, place = elsewhere(address)
        run = runs.read(place)
        latest = run.latest()
        assert latest.step == 4 if finished else latest.step in (3, 4), calls
        np.testing.assert_array_equal(latest.arrays("weights")["head/bias"], np.full(3, latest.step, np.float32))
        assert not run.messages[1:], run.messages  # what a marker does not vouch for was not even read
        assert [line["step"] for line in run.stats()][: latest.step] == list(range(1, latest.step + 1))
        if finished:
            break
    assert finished and calls > 8


def test_a_marker_is_sent_after_its_files_and_removed_before_them(store, address, recipe, arrays):
    mirror, _ = elsewhere(address)
    for step in (1, 2, 3):
        save(mirror, recipe, arrays, step)
    sent = [name for call, name in store.calls if call in ("copy", "rename") and "step_00000003" in name and ".partial." not in name]
    assert sent[-1].endswith("COMPLETE.json") and len(sent) == 5
    removed = [name for call, name in store.calls if call == "remove"]
    assert removed[0].endswith("step_00000001/COMPLETE.json") and all("step_00000001" in name for name in removed)


def test_a_send_that_fails_is_told_and_made_up_for_by_the_next(store, address, recipe, arrays):
    said = []
    mirror, _ = elsewhere(address, said.append)
    store.calls_left, store.error = 3, lambda: tf.errors.UnavailableError(None, None, "the network is down")
    save(mirror, recipe, arrays, 1)
    assert len(said) == 1 and "the network is down" in said[0]
    with pytest.raises(WorkError, match=r"the network is down.*All of it is in"):
        mirror.push(last=True)
    store.calls_left = None
    save(mirror, recipe, arrays, 2)
    assert runs.read(elsewhere(address)[1]).latest().step == 2


def test_a_local_copy_that_is_further_is_kept_and_a_run_removed_from_the_bucket_starts_anew(store, address, recipe, arrays):
    mirror, _ = elsewhere(address, lambda text: None)
    save(mirror, recipe, arrays, 1)
    store.calls_left, store.error = 0, lambda: tf.errors.UnavailableError(None, None, "down")
    save(mirror, recipe, arrays, 2)
    store.calls_left = None
    assert runs.read(buckets.Mirror(address, print).pull()).latest().step == 2
    tf.io.gfile.rmtree(address)
    assert not buckets.Mirror(address, print).pull().exists()


RECIPE = {
    "name": "tiny",
    "data": {"source": "emoji", "size": 16, "input_channels": 1, "split": {"validation": 0.01, "limit": 24}},
    "model": {"levels": [4, 8], "groups": 2},
    "training": {"images": 64, "batch": 8, "steps_per_call": 2},
    "checkpoint": {"every_images": 16},
}


def test_a_run_in_a_bucket_is_stopped_and_goes_on_on_another_machine(store, address, tmp_path, monkeypatch):
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch + 1 == 4:
                os.kill(os.getpid(), signal.SIGTERM)

    assert unetkit.fit(RECIPE, address, callbacks=[Stop()], progress=False).status == "stopped"
    monkeypatch.setenv("UNETKIT_CACHE_DIR", str(tmp_path / "another machine"))
    result = unetkit.fit(RECIPE, address, progress=False)
    assert (result.status, result.step) == ("done", 8)
    assert unetkit.fit(RECIPE, address, progress=False).status == "nothing to do"
    assert json.loads(tf.io.gfile.GFile(f"{address}/DONE").read())["step"] == 8
    straight = unetkit.fit(RECIPE, tmp_path / "straight", progress=False)
    one, other = (runs.read(place).latest().arrays("weights") for place in (address, straight.path))
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def test_a_folder_of_images_in_a_bucket_is_read_once_and_again_where_it_changed(store, address, tmp_path, capsys):
    random = np.random.default_rng(0)
    for number in range(6):
        Image.fromarray(random.integers(0, 256, (16, 16, 3), np.uint8)).save(tmp_path / f"{number}.png")
        tf.io.gfile.makedirs(f"{address}/in/it")
        tf.io.gfile.copy(str(tmp_path / f"{number}.png"), f"{address}/in/it/{number}.png", overwrite=True)
    source = {"kind": "folder", "path": f"{address}/in", "task": "colorize"}
    recipe = recipes.read({"name": "r", "data": {"source": source, "size": 16, "input_channels": 1}, "training": {"images": 8}})
    assert len(open_dataset(recipe.data).train) == 5
    assert "reading 6 of 6 files" in capsys.readouterr().err
    assert len(open_dataset(recipe.data).train) == 5
    assert capsys.readouterr().err == ""
    tf.io.gfile.remove(f"{address}/in/it/0.png")
    dataset = open_dataset(recipe.data)
    assert len(dataset.train) + len(dataset.validation) == 5


def test_a_folder_that_is_not_there_is_bad_input(store):
    with pytest.raises(UserError, match="is empty, is not there, or may not be read"):
        buckets.fetch("ram://nothing/here")
