"""Augmentation and the tasks, by hand."""

import numpy as np
import pytest

from unetkit.data import open_dataset
from unetkit.data.augment import Change
from unetkit.data.tasks import colorize, denoise, inpaint, super_resolve
from unetkit.recipe import schema

RANDOM = np.random.default_rng(0)
IMAGE = RANDOM.uniform(-1, 1, (16, 12, 3)).astype(np.float32)


def changes(count=400, **augment):
    return [Change.draw(schema.Augment(**augment), 5, k) for k in range(count)]


def test_without_augmentation_nothing_changes():
    assert set(changes()) == {Change()}


def test_flips_happen_to_half_of_the_samples():
    assert 150 < sum(change.horizontal for change in changes(flip="horizontal")) < 250
    assert not any(change.vertical for change in changes(flip="horizontal"))
    assert 150 < sum(change.vertical for change in changes(flip="vertical")) < 250
    assert {(c.horizontal, c.vertical) for c in changes(flip="both")} == {(a, b) for a in (False, True) for b in (False, True)}


def test_one_option_leaves_the_draws_of_another_alone():
    alone, together = changes(flip="horizontal"), changes(flip="horizontal", brightness=0.3, crop_margin=0.2)
    assert [change.horizontal for change in alone] == [change.horizontal for change in together]


def test_windows_reach_every_corner_and_never_beyond():
    pixels = np.arange(36).reshape(6, 6, 1)
    corners = {int(change.window(pixels, 4, 4)[0, 0, 0]) for change in changes(crop_margin=0.5)}
    assert corners == {row * 6 + column for row in range(3) for column in range(3)}


def test_mirroring_by_hand():
    pixels = np.arange(4).reshape(2, 2, 1)
    assert Change(horizontal=True).window(pixels, 2, 2)[..., 0].tolist() == [[1, 0], [3, 2]]
    assert Change(vertical=True).window(pixels, 2, 2)[..., 0].tolist() == [[2, 3], [0, 1]]


def test_jitter_is_a_linear_map_within_its_bounds_and_clipped():
    pixels = np.array([[[-1, 0, 0.9, 0.5]]], np.float32)
    Change(shift=0.2, factor=0.5).jitter(pixels)
    assert pixels[0, 0] == pytest.approx([-0.3, 0.2, 0.65, 0.5])  # alpha, the fourth, stays
    Change(shift=1.0).jitter(pixels)
    assert pixels[0, 0] == pytest.approx([0.7, 1, 1, 0.5])
    drawn = changes(brightness=0.1, contrast=0.3)
    assert max(abs(change.shift) for change in drawn) == pytest.approx(0.2, abs=0.01)  # a tenth of the range, which is 2
    assert (min(c.factor for c in drawn), max(c.factor for c in drawn)) == pytest.approx((0.7, 1.3), abs=0.01)


def test_colorize_makes_grey_of_the_input_alone():
    grey = colorize(schema.Colorize(), IMAGE, RANDOM)
    assert grey == pytest.approx(np.repeat(IMAGE @ np.array([[0.299], [0.587], [0.114]], np.float32), 3, axis=-1), abs=1e-6)
    with_alpha = np.concatenate([IMAGE, IMAGE[..., :1]], axis=-1)
    assert np.array_equal(colorize(schema.Colorize(), with_alpha, RANDOM)[..., 3], IMAGE[..., 0])


def test_super_resolve_loses_detail_and_keeps_the_mean():
    stripes = np.tile(np.array([1, -1], np.float32), 8).reshape(1, 16, 1).repeat(16, axis=0)
    assert np.abs(super_resolve(schema.SuperResolve(factor=4), stripes, RANDOM)).max() < 0.1
    flat = np.full((16, 12, 3), 0.3, np.float32)
    assert super_resolve(schema.SuperResolve(factor=16), flat, RANDOM) == pytest.approx(flat, abs=1e-5)


def test_noise_has_the_width_asked_for_and_stays_in_range():
    flat = np.zeros((200, 200, 4), np.float32)
    noisy = denoise(schema.Denoise(sigma=0.1), flat, np.random.default_rng(0))
    assert noisy[..., :3].std() == pytest.approx(0.2, rel=0.02)  # a tenth of the range, which is 2
    assert not noisy[..., 3].any()
    assert np.abs(denoise(schema.Denoise(sigma=2.0), flat, RANDOM)).max() == 1


def test_the_hole_is_as_large_as_asked_and_anywhere():
    image = np.ones((16, 12, 4), np.float32)
    seen = set()
    for number in range(300):
        hole = inpaint(schema.Inpaint(share=0.25), image, np.random.default_rng(number)) != 1
        rows, columns = np.flatnonzero(hole.any(axis=(1, 2))), np.flatnonzero(hole.any(axis=(0, 2)))
        assert (rows.size, columns.size, hole.sum()) == (4, 3, 4 * 3 * 4)
        seen.add((rows[0], columns[0]))
    assert {row for row, _ in seen} == set(range(13))
    assert {column for _, column in seen} == set(range(10))
    masked = inpaint(schema.Inpaint(), image, RANDOM)
    assert np.unique(masked[..., :3]).tolist() == [0, 1]
    assert np.unique(masked[..., 3]).tolist() == [-1, 1]


TASKS = [schema.Colorize(), schema.SuperResolve(), schema.Denoise(), schema.Inpaint()]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)
@pytest.mark.parametrize("input_channels", [1, 3, 4])
def test_every_task_makes_pairs_of_one_shape(solid, tmp_path, task, input_channels):
    for number in range(4):
        solid(f"set/{number}.png", (200 - 40 * number, 30 * number, 90), size=(20 + number, 16))
    source = schema.Folder(path=str(tmp_path / "set"), task=task)
    data = schema.Data(source=source, size=16, input_channels=input_channels, augment=schema.Augment(brightness=0.2))
    dataset = open_dataset(data, seed=3)
    sample = dataset.train.sample(5)
    assert sample["input"].shape == (16, 16, input_channels)
    assert sample["target"].shape == (16, 16, 3)
    assert np.ptp(sample["target"], axis=(0, 1)).max() < 1e-6  # the target is the plain image, brighter or darker
    assert np.abs(sample["input"]).max() <= 1
    # the input comes from the image as it is after the jitter
    outside = sample["input"].reshape(-1, input_channels)[:, 0]
    luma = sample["target"][0, 0] @ [0.299, 0.587, 0.114]
    expected = luma if input_channels == 1 or task.kind == "colorize" else sample["target"][0, 0, 0]
    assert np.median(outside) == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("task", [schema.Denoise(), schema.Inpaint()], ids=lambda task: task.kind)
def test_chance_differs_between_epochs_in_training_and_never_in_validation(solid, tmp_path, task):
    for number in range(10):
        solid(f"set/{number}.png", (number, 30, 90), size=(16, 16))
    data = schema.Data(source=schema.Folder(path=str(tmp_path / "set"), task=task), size=16)
    first, second = open_dataset(data, seed=1), open_dataset(data, seed=2)
    count = len(first.train)
    again = [k for k in range(count, 2 * count) if np.array_equal(first.train.sample(k)["target"], first.train.sample(0)["target"])]
    assert not np.array_equal(first.train.sample(0)["input"], first.train.sample(again[0])["input"])
    assert not np.array_equal(first.train.sample(0, epoch_shuffle=False)["input"], second.train.sample(0, epoch_shuffle=False)["input"])
    assert np.array_equal(first.validation.pair(0)["input"], second.validation.pair(0)["input"])
    (batch, _), *_ = first.validation.every(1)
    assert np.array_equal(batch["input"][0], first.validation.pair(0)["input"])
