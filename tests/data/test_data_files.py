"""Which files count, who pairs with whom, and errors that name them."""

import numpy as np
import pytest
from PIL import Image

from unetkit.data import open_dataset
from unetkit.data.check import check
from unetkit.data.files import few, list_images
from unetkit.errors import UserError
from unetkit.recipe import schema

WHOLE = schema.Split(validation=0)


def code(stem):
    """A grey value that says which stem a picture belongs to."""
    return 20 * int(stem)


def members(solid, side, names):
    for name in names:
        stem = name.rpartition("/")[2].split(".")[0]
        solid(f"{side}/{name}", (code(stem),) * 3, size=(16, 16))


def pairs(tmp_path, **options):
    source = schema.Pairs(inputs=str(tmp_path / "A"), targets=str(tmp_path / "B"), **options)
    return schema.Data(source=source, size=16, split=WHOLE)


def folder(tmp_path, **options):
    return schema.Data(source=schema.Folder(path=str(tmp_path), task=schema.Denoise()), size=8, split=WHOLE, **options)


def refused(data):
    """The message, after checking that the check command finds the same."""
    with pytest.raises(UserError) as caught:
        open_dataset(data)
    report = check(data)
    assert not report.ok
    assert str(caught.value) == "\n".join(report.problems)
    return str(caught.value)


def test_pairs_are_made_by_stem_whatever_the_ending(solid, tmp_path):
    members(solid, "A", ["1.jpg", "2.JPG", "10.jpeg", "3.webp", "sub/4.bmp"])
    members(solid, "B", ["1.png", "10.tif", "2.png", "3.gif", "sub/4.PNG"])
    (tmp_path / "A" / "._1.jpg").write_bytes(b"resource fork")
    (tmp_path / "A" / ".DS_Store").write_bytes(b"")
    (tmp_path / "A" / ".thumbnails").mkdir()
    (tmp_path / "A" / ".thumbnails" / "9.png").write_bytes(b"")
    (tmp_path / "B" / "notes.txt").write_text("notes")
    dataset = open_dataset(pairs(tmp_path))
    assert dataset.train.names == ("1", "10", "2", "3", "sub/4")
    expected = np.array([code(name.rpartition("/")[2]) for name in dataset.train.names])
    for batch, real in dataset.train.every(5):
        assert real == 5
        for member in batch.values():
            assert (member.mean(axis=(1, 2, 3)) + 1) * 127.5 == pytest.approx(expected, abs=1.5)
    assert dataset.report.ignored == {
        f"hidden, in {tmp_path / 'A'}": (".DS_Store", "._1.jpg", ".thumbnails/"),
        f"not named as an image, in {tmp_path / 'B'}": ("notes.txt",),
    }


def test_every_batch_pairs_equal_codes(solid, tmp_path):
    for side, ending in (("A", "jpg"), ("B", "png")):
        members(solid, side, [f"{number}.{ending}" for number in range(1, 13)])
    with open_dataset(pairs(tmp_path), seed=1).train.batches(5) as batches:
        for _ in range(8):
            batch = next(batches)
            assert batch["input"] == pytest.approx(batch["target"], abs=0.02)


def test_a_stem_that_only_one_side_has_is_an_error_naming_both_sides(solid, tmp_path):
    members(solid, "A", ["1.jpg", "2.jpg", "10.jpg"])
    members(solid, "B", ["1.png", "10.png", "2.png", "3.png"])
    assert refused(pairs(tmp_path)) == (
        f"1 without a partner, only in {tmp_path / 'B'}: 3\ngive each its partner, or set data.source.unmatched: skip"
    )
    members(solid, "A", [f"{number}.png" for number in range(4, 11) if number < 10])
    message = refused(pairs(tmp_path))
    assert f"6 without a partner, only in {tmp_path / 'A'}: 4, 5, 6, 7, 8 and 1 more" in message
    assert f"1 without a partner, only in {tmp_path / 'B'}: 3" in message


def test_unmatched_files_may_be_skipped_with_a_count(solid, tmp_path):
    members(solid, "A", ["1.jpg", "2.jpg", "10.jpg"])
    members(solid, "B", ["1.png", "2.png", "3.png"])
    dataset = open_dataset(pairs(tmp_path, unmatched="skip"))
    assert dataset.train.names == ("1", "2")
    assert dataset.report.ignored == {f"only in {tmp_path / 'A'}": ("10",), f"only in {tmp_path / 'B'}": ("3",)}
    assert any("ignored" in line and "10" in line for line in dataset.report.lines())


def test_two_files_of_one_stem_are_an_error_naming_both(solid, tmp_path):
    members(solid, "A", ["1.jpg", "1.png", "2.jpg"])
    members(solid, "B", ["1.png", "2.png"])
    assert "data.source.inputs" in refused(pairs(tmp_path))
    assert "1.jpg and 1.png" in refused(pairs(tmp_path))


def test_members_of_unequal_size_are_an_error_naming_both(solid, tmp_path):
    a, b = solid("A/1.png", size=(8, 9)), solid("B/1.png", size=(9, 8))
    assert f"{a} (8 x 9) and {b} (9 x 8)" in refused(pairs(tmp_path))


def test_sizes_are_compared_upright(solid, tmp_path):
    exif = Image.Exif()
    exif[0x112] = 6
    solid("A/1.jpg", size=(8, 16), exif=exif)
    solid("B/1.png", size=(16, 8))
    assert len(open_dataset(pairs(tmp_path)).train) == 1


def test_all_problems_are_told_at_once(solid, tmp_path):
    members(solid, "A", ["1.png", "2.png", "2.jpg", "4.png"])
    members(solid, "B", ["1.png", "2.png"])
    solid("B/1.png", size=(3, 3))
    data = schema.Data(source=pairs(tmp_path).source, size=16, input_channels=2)
    message = refused(data)
    for words in ("data.input_channels: 2", "2.jpg and 2.png", "only in", "differ in size"):
        assert words in message


def test_nothing_in_common_is_an_error(solid, tmp_path):
    members(solid, "A", ["1.png"])
    members(solid, "B", ["2.png"])
    assert "no pair of images" in refused(pairs(tmp_path, unmatched="skip"))


def test_side_by_side_halves(solid, tmp_path):
    image = Image.new("RGB", (32, 16), (10, 20, 30))
    image.paste((200, 100, 50), (16, 0, 32, 16))
    (tmp_path / "set").mkdir()
    image.save(tmp_path / "set" / "a.png")
    for side, input_first in (("left", True), ("right", False)):
        source = schema.SideBySide(path=str(tmp_path / "set"), input=side)
        data = schema.Data(source=source, size=12, input_channels=1, split=WHOLE)
        pair = open_dataset(data).train.pair(0)
        grey = (0.299 * 10 + 0.587 * 20 + 0.114 * 30) if input_first else (0.299 * 200 + 0.587 * 100 + 0.114 * 50)
        colour = (200, 100, 50) if input_first else (10, 20, 30)
        assert pair["input"].shape == (12, 12, 1)
        # to the edge: not a pixel of the other half shows
        assert (pair["input"] + 1) * 127.5 == pytest.approx(np.full((12, 12, 1), grey), abs=1)
        assert (pair["target"] + 1) * 127.5 == pytest.approx(np.tile(colour, (12, 12, 1)), abs=1)


def test_an_odd_width_cannot_be_halved(solid, tmp_path):
    path = solid("set/a.png", size=(15, 8))
    message = refused(schema.Data(source=schema.SideBySide(path=str(tmp_path / "set"))))
    assert f"odd width cannot be halved: {path} (15 x 8)" in message


def test_a_missing_folder_names_the_nearest(solid, tmp_path):
    solid("photos/train/a.png"), solid("photos/validation/b.png")
    data = folder(tmp_path / "photos" / "trian")
    assert refused(data) == f"data.source.path: there is no folder {tmp_path}/photos/trian; the nearest is {tmp_path}/photos/train"
    assert "has train, validation" in refused(folder(tmp_path / "photos" / "x"))
    assert f"the nearest is {tmp_path}/photos" in refused(folder(tmp_path / "photo" / "train"))
    assert "is a file where a folder was expected" in refused(folder(tmp_path / "photos" / "train" / "a.png"))


def test_an_empty_folder_says_what_lies_there(tmp_path):
    (tmp_path / "set").mkdir()
    assert refused(folder(tmp_path / "set")) == f"data.source: no image in {tmp_path / 'set'}, which holds no files"
    (tmp_path / "set" / "notes.txt").write_text("notes")
    assert "no image in" in refused(folder(tmp_path / "set"))
    assert "1 not named as an image: notes.txt" in refused(folder(tmp_path / "set"))


def test_subfolders_and_links_are_read_once(solid, tmp_path):
    solid("set/a.png"), solid("set/deep/er/b.png"), solid("elsewhere/c.png")
    (tmp_path / "set" / "linked.png").symlink_to(tmp_path / "set" / "a.png")
    (tmp_path / "set" / "there").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "set" / "deep" / "up").symlink_to(tmp_path / "set")
    listing = list_images(tmp_path / "set", "path")
    assert list(listing.files) == ["a.png", "deep/er/b.png", "linked.png", "there/c.png"]
    assert listing.ignored == {"link to a folder that is read already": ("deep/up/",)}


def test_a_home_folder_is_understood(solid, tmp_path, monkeypatch):
    solid("set/a.png")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert list(list_images("~/set", "path").files) == ["a.png"]


def test_few_names():
    assert few("abc") == "a, b, c"
    assert few(map(str, range(1005))) == "0, 1, 2, 3, 4 and 1,000 more"


def test_colour_cannot_be_learned_in_grey(solid, tmp_path):
    solid("set/a.png")
    source = schema.Folder(path=str(tmp_path / "set"), task=schema.Colorize())
    assert "data.target_channels: 1" in refused(schema.Data(source=source, target_channels=1))


def test_folders_without_a_common_stem_are_not_called_empty(solid, tmp_path):
    for name in ("A/1.png", "A/2.png", "B/3.png"):
        solid(name)
    told = refused(pairs(tmp_path))
    assert "2 without a partner" in told and "1 without a partner" in told and "holds no files" not in told
