"""Waiting is measured, threads end, errors name files, memory is asked for before it is taken."""

import threading
import time

import numpy as np
import pytest

from unetkit.data import memory, open_dataset
from unetkit.data.loader import Batches, default_ahead
from unetkit.data.sources import FileSource
from unetkit.errors import UserError
from unetkit.recipe import schema

SHAPES = {"input": (4, 4, 1), "target": (4, 4, 3)}


def slow(seconds):
    def fill(k, first, second):
        time.sleep(seconds)
        first[:], second[:] = k, -k

    return fill


def wait_share(fill, steps, compute_seconds):
    with Batches(fill, SHAPES, batch=2, start=0, stop=None, workers=1, ahead=2) as batches:
        next(batches)
        before, began = batches.wait_seconds, time.perf_counter()
        for _ in range(steps):
            next(batches)
            time.sleep(compute_seconds)
        return (batches.wait_seconds - before) / (time.perf_counter() - began)


@pytest.fixture
def data_threads():
    """Gives the reading threads that the test has started and not yet ended."""
    before = set(threading.enumerate())
    return lambda: [t for t in threading.enumerate() if t not in before and t.name.startswith("unetkit-data")]


def data_of(tmp_path, **options):
    return schema.Data(source=schema.Folder(path=str(tmp_path / "set"), task=schema.Colorize()), size=8, **options)


def test_waiting_for_slow_data_is_seen():
    assert wait_share(slow(0.025), steps=8, compute_seconds=0.0) > 0.7  # nothing else to do, however busy the machine is


def test_data_at_hand_are_not_waited_for():
    assert wait_share(slow(0), steps=4, compute_seconds=0.3) < 0.3


def test_samples_come_in_order_however_many_workers_race():
    def fill(k, first, second):
        time.sleep(0.002 * (k % 3))
        first[:], second[:] = k, -k

    with Batches(fill, SHAPES, batch=5, start=3, stop=None, workers=4, ahead=3) as batches:
        for step in range(6):
            batch = next(batches)
            assert batch["input"][:, 0, 0, 0].tolist() == [3 + 5 * step + row for row in range(5)]
            assert np.array_equal(batch["input"][..., 0], -batch["target"][..., 0])


def test_batches_given_are_not_written_again():
    with Batches(slow(0), SHAPES, batch=2, start=0, stop=None, workers=2, ahead=2) as batches:
        first = next(batches)
        for _ in range(10):
            next(batches)
        assert first["input"][:, 0, 0, 0].tolist() == [0, 1]


def test_shapes_and_types_are_static():
    for batch in (1, 3, 8):
        with Batches(slow(0), SHAPES, batch=batch, start=0, stop=None, workers=2, ahead=2) as batches:
            for name, array in next(batches).items():
                assert (array.shape, array.dtype) == ((batch, *SHAPES[name]), np.float32)


def test_close_stops_the_threads_and_the_iterator(data_threads):
    begun = []

    def fill(k, first, second):
        begun.append(k)
        time.sleep(0.01)

    batches = Batches(fill, SHAPES, batch=50, start=0, stop=None, workers=2, ahead=16)
    assert data_threads()
    before = len(begun)
    batches.close()
    batches.close()
    assert len(begun) - before < 50  # the samples at hand, not the 800 that were ahead
    assert not data_threads()
    assert list(batches) == []


def test_an_iterator_that_is_dropped_takes_its_threads_along(data_threads):
    batches = Batches(slow(0), SHAPES, batch=2, start=0, stop=None, workers=2, ahead=2)
    next(batches)
    del batches
    deadline = time.monotonic() + 60
    while data_threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not data_threads()


def test_a_finished_pass_leaves_no_thread(solid, tmp_path, data_threads):
    solid("set/a.png"), solid("set/b.png")
    assert [real for _, real in open_dataset(data_of(tmp_path, split=schema.Split(validation=0))).train.every(4)] == [2]
    assert not data_threads()


def test_a_file_that_breaks_later_is_named(solid, tmp_path, data_threads):
    paths = [solid(f"set/{number}.png") for number in range(4)]
    split = open_dataset(data_of(tmp_path, split=schema.Split(validation=0))).train
    paths[2].write_bytes(paths[2].read_bytes()[:45])
    with pytest.raises(UserError, match=str(paths[2])), split.batches(2) as batches:
        for _ in range(4):
            next(batches)
    assert not data_threads()


def test_an_empty_split_cannot_be_trained_on(solid, tmp_path):
    solid("set/a.png")
    dataset = open_dataset(data_of(tmp_path))
    assert (len(dataset.train), len(dataset.validation)) == (1, 0)
    assert list(dataset.validation.every(3)) == []
    with pytest.raises(UserError, match="validation split is empty"):
        dataset.validation.batches(1)


class Counting(FileSource):
    """Counts how often files are read."""

    reads = 0

    def pair(self, i, fit):
        type(self).reads += 1
        return super().pair(i, fit)


@pytest.mark.parametrize(("cache", "expected"), [("memory", 10), ("none", 60)])
def test_the_cache_holds_what_comes_before_augmentation(solid, tmp_path, monkeypatch, cache, expected):
    for number in range(10):
        solid(f"set/{number}.png", (25 * number, 0, 0), size=(12, 12))
    monkeypatch.setattr("unetkit.data.FileSource", Counting)
    monkeypatch.setattr(Counting, "reads", 0)
    augment = schema.Augment(flip="both", crop_margin=0.5, brightness=0.2)
    options = {"augment": augment, "split": schema.Split(validation=0), "workers": 1}
    split = open_dataset(data_of(tmp_path, cache=cache, **options), seed=1).train
    epochs = [[split.sample(10 * epoch + place, epoch_shuffle=False)["target"] for place in range(10)] for epoch in range(6)]
    assert Counting.reads == expected
    assert not np.array_equal(epochs[0][5], epochs[1][5])
    assert np.array_equal(epochs[3][4], open_dataset(data_of(tmp_path, **options), seed=1).train.sample(34, epoch_shuffle=False)["target"])


def test_a_changed_size_gives_new_shapes_from_the_cache(solid, tmp_path):
    solid("set/a.png")
    for size in (8, 16):
        data = schema.Data(source=data_of(tmp_path).source, size=size, cache="memory")
        assert open_dataset(data).train.sample(0)["target"].shape == (size, size, 3)


def test_validation_is_not_augmented_by_the_cache(solid, tmp_path):
    for number in range(6):
        solid(f"set/{number}.png", (40 * number, 0, 0), size=(30, 20))
    augment = schema.Augment(crop_margin=0.5)
    kept = open_dataset(data_of(tmp_path, cache="memory", augment=augment))
    plain = open_dataset(data_of(tmp_path))
    assert np.array_equal(kept.train.sample(0)["target"].shape, (8, 8, 3))
    for split in ("train", "validation"):
        assert np.array_equal(getattr(kept, split).pair(0)["target"], getattr(plain, split).pair(0)["target"])


def test_what_a_buffer_would_take():
    need = memory.image_bytes(10_000, 1024, 1024, 3, 4)
    assert memory.in_words(need) == "126 GB"
    with pytest.raises(UserError, match=r"needs 126 GB of memory and 64 GB are available; shuffle names"):
        memory.require(need, "a buffer", "shuffle names", limit=64 * 10**9)
    memory.require(need, "a buffer", "shuffle names", limit=128 * 10**9)


def test_a_cache_above_the_memory_is_refused_with_both_numbers(solid, tmp_path, monkeypatch):
    for number in range(4):
        solid(f"set/{number}.png")
    monkeypatch.setattr(memory, "available", lambda: 700)
    open_dataset(data_of(tmp_path))
    with pytest.raises(UserError, match=r"data\.cache: memory needs 1 kB .*use data\.cache: none"):
        open_dataset(data_of(tmp_path, cache="memory"))  # 4 pictures of 8 x 8 x 3 bytes: 768
    monkeypatch.setattr(memory, "available", lambda: 800)
    open_dataset(data_of(tmp_path, cache="memory"))


def test_batches_ahead_above_the_memory_are_refused(solid, tmp_path, monkeypatch):
    solid("set/a.png")
    split = open_dataset(data_of(tmp_path)).train
    monkeypatch.setattr(memory, "available", lambda: 10**6)
    with pytest.raises(UserError, match=r"reading 16 batches of 1,000 ahead needs 26 MB .* and 1 MB .* smaller training.batch"):
        split.batches(1000)


def test_how_many_batches_are_made_ahead():
    assert [default_ahead(size) for size in (1000, 2**24, 2**26, 2**30)] == [16, 16, 4, 2]


def test_the_memory_of_this_machine_is_known():
    assert 10**7 < memory.available() < 10**14


def test_a_containers_limit_counts(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text("5000000\n")
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.stat").write_text("anon 100\ninactive_file 1000000\n")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert memory.available() == 3_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.available() > 3_000_000


def test_the_remedy_names_what_helps(solid, tmp_path):
    solid("set/a.png")
    assert "data.cache: memory (about 0 kB)" in open_dataset(data_of(tmp_path)).train.remedy()
    assert "data.workers (now 3)" in open_dataset(data_of(tmp_path, workers=3)).train.remedy()
    assert "cache" not in open_dataset(data_of(tmp_path, cache="memory")).train.remedy()
    assert "data.source: synthetic" in open_dataset(data_of(tmp_path)).train.remedy()


def test_synthetic_pairs_are_the_same_every_time_and_split_as_any_others():
    data = schema.Data(source=schema.Synthetic(images=40), size=8, input_channels=1)
    first, again = (open_dataset(data, seed) for seed in (0, 0))
    assert (len(first.train), len(first.validation)) == (36, 4)
    with first.train.batches(4) as one, again.train.batches(4, start=4) as two:
        next(one)
        batch, other = next(one), next(two)
    assert batch["input"].shape == (4, 8, 8, 1) and batch["target"].shape == (4, 8, 8, 3)
    assert all(np.array_equal(batch[name], other[name]) for name in batch)
    assert batch["target"].std() > 0.5
    assert "cache" not in first.train.remedy()
