"""`data check` and bad files: named, or skipped with a list and a limit."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from unetkit.data import memory, open_dataset, progress
from unetkit.data.check import check
from unetkit.data.items import Item
from unetkit.data.split import divide
from unetkit.errors import UserError
from unetkit.recipe import schema

BAD = ("empty.jpg", "half.jpg", "text.png")


@pytest.fixture
def folder(tmp_path):
    """Five good files, two of them under wrong names, and three bad ones."""
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    whole = io.BytesIO()
    Image.fromarray(noise).save(whole, format="JPEG")
    for number in range(3):
        Image.new("RGB", (40 + number, 30), (60 * number, 0, 90)).save(tmp_path / f"good{number}.png")
    Image.new("RGB", (20, 20), (0, 255, 0)).save(tmp_path / "png.jpg", format="PNG")
    Image.new("P", (20, 20), 3).save(tmp_path / "gif.jpg", format="GIF")
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "half.jpg").write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
    (tmp_path / "text.png").write_text("not a picture")
    (tmp_path / "notes.txt").write_text("notes")
    return tmp_path


def data_of(folder, **options):
    options = {"split": schema.Split(validation=0), **options}
    return schema.Data(source=schema.Folder(path=str(folder), task=schema.Denoise()), size=16, **options)


def test_bad_files_stop_the_training_before_it_begins_and_are_named(folder):
    with pytest.raises(UserError) as caught:
        open_dataset(data_of(folder))
    # a header says nothing about what is missing at the end of a file: that shows when it is decoded
    assert "empty.jpg: empty file" in str(caught.value)
    assert "text.png: not an image" in str(caught.value)
    assert "on_bad: skip" in str(caught.value)
    for name in ("empty.jpg", "text.png"):
        (folder / name).unlink()
    with pytest.raises(UserError, match=r"half\.jpg: .*truncated"):
        list(open_dataset(data_of(folder)).train.every(2))


def test_bad_files_are_skipped_listed_and_not_counted(folder):
    dataset = open_dataset(data_of(folder, on_bad="skip", max_bad=0.5))
    assert dataset.train.names == ("gif.jpg", "good0.png", "good1.png", "good2.png", "png.jpg")
    assert sorted(dataset.report.bad) == sorted(str(folder / name) for name in BAD)
    lines = "\n".join(dataset.report.lines())
    assert all(name in lines for name in BAD)
    with dataset.train.batches(5) as batches:
        seen = next(batches)["target"]
        assert len(np.unique(seen[:, 8, 8], axis=0)) == 5  # one epoch of the good ones, each once
        for _ in range(4):
            next(batches)


def test_too_many_bad_files_are_an_error_even_when_skipping(folder):
    with pytest.raises(UserError, match=r"3 of 8 files \(37\.5%\) cannot be read, above data\.max_bad: 0\.3"):
        open_dataset(data_of(folder, on_bad="skip", max_bad=0.3))


def test_a_pair_goes_when_one_of_its_members_is_bad(folder, tmp_path_factory):
    targets = tmp_path_factory.mktemp("targets")
    sizes = {
        "good0": (40, 30),
        "good1": (41, 30),
        "good2": (42, 30),
        "png": (20, 20),
        "gif": (20, 20),
        "empty": (9, 9),
        "half": (64, 64),
        "text": (9, 9),
    }
    for stem, size in sizes.items():
        Image.new("RGB", size).save(targets / f"{stem}.png")
    (targets / "good2.png").write_bytes(b"")
    source = schema.Pairs(inputs=str(folder), targets=str(targets))
    data = schema.Data(source=source, size=16, on_bad="skip", max_bad=0.5, split=schema.Split(validation=0))
    assert open_dataset(data).train.names == ("gif", "good0", "good1", "png")


def test_check_reads_every_file_and_reports(folder):
    report = check(data_of(folder))
    assert not report.ok
    assert sorted(report.bad) == sorted(str(folder / name) for name in BAD)
    assert (report.pairs, report.train, report.validation) == (5, 5, 0)
    assert (report.smallest, report.largest) == ((20, 20), (42, 30))
    assert report.modes == {"RGB": 4, "P": 1}
    assert report.formats == {"PNG": 4, "GIF": 1}
    assert report.ignored == {"not named as an image": ("notes.txt",)}
    assert json.loads(json.dumps(report.to_dict()))["ok"] is False
    assert any(line.startswith("problem: 3 of 8 files cannot be read") for line in report.lines())


def test_check_of_good_data_is_ok(folder):
    for name in BAD:
        (folder / name).unlink()
    report = check(data_of(folder, split=schema.Split(validation=0.4)))
    assert report.ok
    assert (report.train, report.validation) == (3, 2)
    assert report.cache_bytes == 5 * 16 * 16 * 3


def test_check_notes_what_will_be_enlarged(folder):
    report = check(schema.Data(source=data_of(folder).source, size=25, on_bad="skip", max_bad=1.0))
    assert report.notes == (f"smaller than data.size, will be enlarged: 2 ({folder / 'gif.jpg'}, {folder / 'png.jpg'})",)


def test_check_of_the_built_in_pairs():
    report = check(schema.Data(source=schema.Emoji()))
    assert report.ok
    assert report.pairs == report.train + report.validation == 1486


def test_check_of_nothing_that_can_be_read(tmp_path):
    (tmp_path / "a.png").write_bytes(b"")
    report = check(data_of(tmp_path, on_bad="skip", max_bad=1.0))
    assert report.problems == ("no pair is left whose files can be read",)
    assert report.lines()


def test_long_reading_shows_its_progress(monkeypatch, capsys):
    monkeypatch.setattr(progress, "AFTER_SECONDS", -1.0)
    assert list(progress.watched(iter(range(5)), 5, "reading images")) == [0, 1, 2, 3, 4]
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(progress, "AFTER_SECONDS", 60.0)
    assert list(progress.watched(iter(range(5)), 5, "reading images")) == [0, 1, 2, 3, 4]
    assert list(progress.watched([], 0, "reading images")) == []


@pytest.mark.parametrize("count", [2, 3, 10, 100])
def test_both_sides_have_something_when_there_is_enough(count):
    items = tuple(Item(f"{number}.png", f"{number}.png") for number in range(count))
    train, validation = divide(items, schema.Split(validation=0.1))
    assert len(validation) == max(1, round(0.1 * count))
    assert sorted(train + validation) == list(range(count))


def test_a_group_larger_than_the_share_is_not_split():
    items = tuple(Item(f"{group}{number}", group) for group in "ab" for number in range(10))
    train, validation = divide(items, schema.Split(validation=0.1))
    assert (len(train), len(validation)) == (10, 10)
    assert divide(items[:10], schema.Split(validation=0.5)) == (list(range(10)), [])


def test_a_further_file_leaves_almost_all_where_they_were():
    items = tuple(Item(f"{number}.png", f"{number}.png") for number in range(500))
    _, before = divide(items[:-1], schema.Split())
    _, after = divide(items, schema.Split())
    assert len(set(before) ^ set(after)) <= 2


def test_a_cache_that_does_not_fit_is_a_problem_before_training(folder, monkeypatch):
    for name in BAD:
        (folder / name).unlink()
    monkeypatch.setattr(memory, "available", lambda: 1000)
    report = check(data_of(folder, cache="memory"))
    assert not report.ok and report.problems[0].startswith("data.cache: memory needs 4 kB of memory and 1 kB are available")
    assert check(data_of(folder)).ok
