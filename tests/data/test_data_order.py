"""Order and chance are functions of (seed, number): resuming, worker counts and processes change nothing."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unetkit.data import open_dataset
from unetkit.data.order import Order, generator
from unetkit.recipe import schema

COUNT = 23


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pictures, each of one grey value that is its number times 10."""
    path = tmp_path_factory.mktemp("order")
    for number in range(COUNT):
        Image.new("L", (10, 12), 10 * number).save(path / f"{number:02}.png")
    return path


def split(folder, workers=0, seed=7, cache="none"):
    augment = schema.Augment(flip="both", crop_margin=0.3, brightness=0.1, contrast=0.2)
    source = schema.Folder(path=str(folder), task=schema.Denoise(sigma=0.05))
    held = schema.Split(validation=0)
    data = schema.Data(source=source, size=8, augment=augment, split=held, workers=workers, cache=cache)
    return open_dataset(data, seed).train


def take(split, samples, batch, start=0, **options):
    with split.batches(batch, start=start, **options) as batches:
        parts = [next(batches) for _ in range(samples // batch)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def same(first, second):
    return all(np.array_equal(first[name], second[name]) for name in ("input", "target"))


def test_every_epoch_holds_each_once_in_an_order_of_its_own():
    order = Order(100, seed=3)
    epochs = [[order.index(100 * epoch + place) for place in range(100)] for epoch in range(3)]
    assert all(sorted(epoch) == list(range(100)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != list(range(100))
    assert [Order(100, seed=4).index(k) for k in range(100)] != epochs[0]
    assert [order.index(k, shuffle=False) for k in range(100, 200)] == list(range(100))


def test_the_first_batch_spans_the_whole_range():
    """Names are shuffled, all of them, before anything is decoded: no buffer to fill, and sorted files mix."""
    first = [Order(1000, seed=0).index(k) for k in range(32)]
    assert min(first) < 100
    assert max(first) > 900
    assert all(isinstance(index, int) for index in first)


def test_streams_of_chance_are_independent():
    draws = {
        (seed, stream, number): generator(seed, stream, number).random() for seed in (0, 1) for stream in (0, 1, 2) for number in range(50)
    }
    assert len(set(draws.values())) == len(draws)
    assert generator(1, 2, 3).random() == draws[(1, 2, 3)]


@pytest.mark.parametrize("cache", ["none", "memory"])
def test_resuming_anywhere_continues_exactly(folder, cache):
    straight = take(split(folder, cache=cache), 60, 5)
    for step in (1, 4, 5, 11):
        rest = take(split(folder, cache=cache), 60 - 5 * step, 5, start=5 * step)
        assert same({name: values[5 * step :] for name, values in straight.items()}, rest)


def test_the_batch_size_does_not_change_the_samples(folder):
    assert same(take(split(folder), 60, 5), take(split(folder), 60, 12))


def test_a_sample_alone_is_the_one_of_the_batch(folder):
    straight = take(split(folder), 30, 5)
    for k in (0, 7, 29):
        assert same({name: values[k] for name, values in straight.items()}, split(folder).sample(k))


@pytest.mark.parametrize("workers", [1, 2, 7])
def test_the_number_of_workers_changes_nothing(folder, workers):
    assert same(take(split(folder, workers=workers), 60, 5), take(split(folder, workers=3), 60, 5))


def test_another_process_gives_the_same(folder):
    def digest(arrays):
        return hashlib.sha256(arrays["input"].tobytes() + arrays["target"].tobytes()).hexdigest()

    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import hashlib, test_data_order as t;"
        f"a = t.take(t.split({str(folder)!r}, workers=2), 60, 5);"
        "print(hashlib.sha256(a['input'].tobytes() + a['target'].tobytes()).hexdigest())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == digest(take(split(folder), 60, 5))


def test_seeds_differ(folder):
    assert not same(take(split(folder, seed=1), 20, 5), take(split(folder, seed=2), 20, 5))


def test_without_augmentation_an_epoch_is_the_pictures_themselves(folder):
    plain = take(split(folder), COUNT, COUNT, augment=False)["target"]
    assert sorted(np.rint((plain[:, 0, 0, 0] + 1) * 127.5).astype(int).tolist()) == [10 * number for number in range(COUNT)]
    in_order = take(split(folder), COUNT, COUNT, augment=False, epoch_shuffle=False)["target"]
    assert np.rint((in_order[:, 0, 0, 0] + 1) * 127.5).astype(int).tolist() == [10 * number for number in range(COUNT)]


def test_augmentation_differs_between_epochs(folder):
    one = split(folder)
    first = one.sample(0, epoch_shuffle=False)
    assert not np.array_equal(first["target"], one.sample(COUNT, epoch_shuffle=False)["target"])


@pytest.mark.parametrize("batch", [1, 5, 23, 40])
def test_every_gives_all_in_order_and_says_how_many_are_real(folder, batch):
    parts = [(part["target"].copy(), real) for part, real in split(folder).every(batch)]
    assert all(len(part) == batch for part, _ in parts)
    values = np.concatenate([part[:real] for part, real in parts])
    assert np.rint((values[:, 0, 0, 0] + 1) * 127.5).astype(int).tolist() == [10 * number for number in range(COUNT)]
    part, real = parts[-1]
    assert all(np.array_equal(repeat, part[real - 1]) for repeat in part[real:])
