"""The built-in pairs: what is there, and that variants of one figure stay on one side."""

import collections
import subprocess
import sys

import numpy as np
import pytest

from unetkit.data import builtin, open_dataset
from unetkit.recipe import schema

DATA = schema.Data(source=schema.Emoji())


@pytest.fixture(scope="module")
def dataset():
    return open_dataset(DATA)


def test_all_pairs_are_there(dataset):
    assert len(builtin.names()) == 1486
    assert sorted(dataset.train.names + dataset.validation.names) == sorted(builtin.names())
    assert dataset.report.ok


@pytest.mark.parametrize("share", [0.02, 0.1, 0.25, 0.5])
def test_the_share_held_out_is_close_to_the_one_asked_for(share):
    data = schema.Data(source=schema.Emoji(), split=schema.Split(validation=share))
    assert len(open_dataset(data).validation) == pytest.approx(share * 1486, abs=2)


def test_nothing_is_held_out_when_not_asked():
    data = schema.Data(source=schema.Emoji(), split=schema.Split(validation=0))
    assert len(open_dataset(data).validation) == 0


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_variants_of_one_figure_never_sit_on_both_sides(share):
    data = schema.Data(source=schema.Emoji(), split=schema.Split(validation=share))
    dataset = open_dataset(data)
    assert not {*map(builtin.figure, dataset.train.names)} & {*map(builtin.figure, dataset.validation.names)}
    # by other means than the rule: who, and which way
    bare = [collections.Counter(), collections.Counter()]
    for counter, split in zip(bare, (dataset.train, dataset.validation), strict=True):
        for name in split.names:
            name = name.removesuffix("-facing-right")
            for who in ("man-", "woman-", "person-", "mx-", "mrs-"):
                name = name.removeprefix(who)
            counter[name] += 1
    assert not bare[0].keys() & bare[1].keys()


@pytest.mark.parametrize(
    ("names", "figures"),
    [
        (("artist", "man-artist", "woman-artist"), 1),
        (("man-running", "woman-running-facing-right", "person-running"), 1),
        (("man", "woman", "person", "man-red-hair", "woman-bald", "person-beard", "old-man", "older-person"), 1),
        (("boy", "girl", "child"), 1),
        (("pregnant-man", "pregnant-woman", "pregnant-person"), 1),
        (("mx-claus", "mrs-claus", "santa-claus"), 1),
        (("prince", "princess", "person-with-crown"), 1),
        (("red-heart", "blue-heart", "black-heart"), 1),
        (("left-arrow", "up-right-arrow"), 1),
        (("first-quarter-moon", "last-quarter-moon", "full-moon"), 1),
        (("first-quarter-moon", "first-quarter-moon-face"), 2),
        (("cat", "cat-face"), 2),
        (("mans-shoe", "running-shoe", "flat-shoe"), 3),
        (("baby", "child", "man"), 3),
        (("superhero", "man-superhero", "supervillain"), 2),
    ],
)
def test_what_one_figure_is(names, figures):
    assert len({builtin.figure(name) for name in names}) == figures


def test_outlines_of_one_drawing_never_sit_on_both_sides(dataset):
    """The same drawing under two names (a mouse and a rat) would tell validation what training has seen."""
    ink = 255.0 - builtin.outlines(1)[..., 0]

    def unit(pictures):
        # 3 x 3 box: a shift by a pixel is no difference
        padded = np.pad(pictures, ((0, 0), (1, 1), (1, 1)))
        soft = sum(padded[:, y : y + 64, x : x + 64] for y in range(3) for x in range(3)).reshape(len(pictures), -1)
        soft = soft - soft.mean(axis=1, keepdims=True)
        return (soft / np.linalg.norm(soft, axis=1, keepdims=True)).astype(np.float32)

    held = np.isin(builtin.names(), dataset.validation.names)
    plain, mirrored = unit(ink), unit(ink[:, :, ::-1])
    alike = np.maximum(plain[held] @ plain[~held].T, mirrored[held] @ plain[~held].T)
    close = np.argwhere(alike > 0.97)
    names = np.array(builtin.names())
    assert [(str(names[held][i]), str(names[~held][j])) for i, j in close] == []
    figures = np.array([builtin.figure(name) for name in builtin.names()])
    everywhere = np.argwhere(np.triu(np.maximum(plain @ plain.T, mirrored @ plain.T) > 0.97, 1))
    assert [(str(names[i]), str(names[j])) for i, j in everywhere if figures[i] != figures[j]] == []


def test_the_split_does_not_depend_on_the_seed(dataset):
    assert open_dataset(DATA, seed=99).validation.names == dataset.validation.names


def test_a_limit_keeps_that_many_and_leaves_validation_alone(dataset):
    limited = open_dataset(schema.Data(source=schema.Emoji(), split=schema.Split(limit=50)))
    assert len(limited.train) == 50
    assert set(limited.train.names) < set(dataset.train.names)
    assert limited.validation.names == dataset.validation.names
    assert len({name[0] for name in limited.train.names}) > 10  # from all over the alphabet


def test_outline_in_colour_out(dataset):
    i = dataset.train.names.index("red-apple") if "red-apple" in dataset.train.names else dataset.validation.names.index("red-apple")
    split = dataset.train if "red-apple" in dataset.train.names else dataset.validation
    pair = split.pair(i)
    assert (pair["input"][..., 0] == pair["input"][..., 1]).all()
    red, green, _ = pair["target"][32, 32]
    assert red > green + 0.5
    reverse = open_dataset(schema.Data(source=schema.Emoji(reverse=True)))
    split = reverse.train if "red-apple" in reverse.train.names else reverse.validation
    other = split.pair(i)
    assert np.array_equal(other["target"], pair["input"])
    assert np.array_equal(other["input"], pair["target"])


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", [32, 64, (48, 80)])
def test_other_sizes_and_channels(size, channels):
    data = schema.Data(source=schema.Emoji(), size=size, input_channels=channels, target_channels=channels, resize="pad")
    sample = open_dataset(data).train.sample(3)
    height, width = (size, size) if isinstance(size, int) else size
    for member in sample.values():
        assert member.shape == (height, width, channels)
        assert member.dtype == np.float32
        assert -1 <= member.min() < member.max() <= 1
        assert member[0, 0, 0] == 1  # white around it


def test_the_licence_travels_with_the_pictures():
    notice = builtin._file("NOTICE").read_text(encoding="utf-8")
    for words in (
        "MIT License",
        "Copyright (c) Microsoft Corporation",
        "@iconify-json/fluent-emoji-flat",
        "1.2.6",
        "Permission is hereby granted",
    ):
        assert words in notice


def test_neither_keras_nor_tensorflow_is_imported():
    code = (
        "import sys; from unetkit.data import open_dataset; import unetkit.data.images; from unetkit.recipe import schema;"
        "next(open_dataset(schema.Data(source=schema.Emoji())).train.batches(2));"
        "print(sorted({'keras', 'tensorflow', 'jax', 'rich', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "[]"
