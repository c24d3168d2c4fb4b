"""Files and folders of any size through a network: sizes, names, and files that cannot be read."""

import dataclasses
import functools
import os
import resource
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from unetkit import inference, recipe
from unetkit.data import tasks
from unetkit.data.images import read_image, write_image
from unetkit.errors import UserError, WorkError
from unetkit.inference import Tiled, generating
from unetkit.inference.fixed import Fixed, Receptive
from unetkit.inference.ledger import NAME
from unetkit.inference.maker import Maker, enlargement
from unetkit.inference.media import Pictures
from unetkit.inference.targets import plan
from unetkit.progress import Count
from unetkit.recipe import schema


@pytest.fixture
def network(monkeypatch):
    """Stands for a trained run: its output is its input, and it remembers the shapes it was given."""
    fake = SimpleNamespace(shapes=[], output=lambda inputs: inputs, output_channels=3, channels=3, name="first", prepared=False)

    def run(inputs):
        assert inputs.dtype == np.float32
        fake.shapes.append(inputs.shape)
        return fake.output(inputs)

    def make(tile, overlap, batch, window):
        fixed = Fixed(run, batch or 1, (tile or 16,) * 2, fake.channels, fake.output_channels, Receptive((2, 2), 4))
        fake.prepared = True
        return Tiled(fixed, overlap=overlap, window=window), fake.name

    def opened(run, *, depth, enlarged, allow_code, seed, sampling):
        return Maker(Pictures(fake.channels, depth=depth), make)

    monkeypatch.setattr(generating, "open_maker", opened)
    return fake


def picture(path, height, width, seed=0):
    """A file of random colours; returns its 8-bit pixels."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return pixels


def pixels_of(path):
    with Image.open(path) as image:
        return np.asarray(image)


@pytest.mark.parametrize("depth", [8, 16])
def test_a_file_comes_back_in_its_own_size(network, tmp_path, depth):
    pixels = picture(tmp_path / "in" / "cat.png", 37, 70)
    written = inference.generate("run", [tmp_path / "in" / "cat.png"], tmp_path / "out", depth=depth)
    assert written == [tmp_path / "out" / "cat.png"] and set(network.shapes) == {(1, 16, 16, 3)}
    np.testing.assert_array_equal(pixels_of(written[0]) if depth == 8 else np.rint((read_image(written[0]) + 1) * 127.5), pixels)


def test_values_are_clipped_then_rounded(network, tmp_path):
    picture(tmp_path / "a.png", 8, 8)
    values = np.array([-3, -1, -0.501, 0.0, 0.4999, 1.0, 1.7, 0.9999], np.float32)
    network.output = lambda inputs: np.tile(values[None, None, np.arange(-4, 12) % 8, None], (1, 16, 1, 3))
    (eight,) = inference.generate("run", [tmp_path / "a.png"], tmp_path / "8")
    assert pixels_of(eight)[0, :, 0].tolist() == [0, 0, 64, 128, 191, 255, 255, 255]
    (sixteen,) = inference.generate("run", [tmp_path / "a.png"], tmp_path / "16", depth=16)
    np.testing.assert_allclose(read_image(sixteen)[0, :, 0], values.clip(-1, 1), atol=1.01 / 65535)


def test_a_folder_keeps_its_subfolders_and_results_keep_the_order(network, tmp_path):
    for name, size in (("b/2.png", (8, 8)), ("a.png", (20, 8)), ("b/c/3.png", (8, 8)), ("z.png", (20, 8)), (".hidden.png", (8, 8))):
        picture(tmp_path / "in" / name, *size)
    (tmp_path / "in" / "notes.txt").write_text("x")
    written = inference.generate("run", [tmp_path / "in"], tmp_path / "out")
    assert [str(path.relative_to(tmp_path / "out")) for path in written] == ["a.png", "b/2.png", "b/c/3.png", "z.png"]
    assert network.shapes == [(1, 16, 16, 3)] * 6, "one shape for all; the two of 20 x 8 take two tiles each"


def test_equal_stems_become_different_pictures(tmp_path):
    for name in ("one/a.png", "one/a.bmp", "two/A.png"):
        picture(tmp_path / name, 8, 8)
    planned = plan([tmp_path / "one", tmp_path / "two", tmp_path / "one" / "a.png"], tmp_path / "out", Pictures(3))
    assert [(str(i.relative_to(tmp_path)), t.name) for i, t in planned] == [
        ("one/a.bmp", "a.png"),
        ("one/a.png", "a-2.png"),
        ("two/A.png", "A-3.png"),
    ]


def test_an_input_is_never_overwritten(network, tmp_path):
    before = picture(tmp_path / "in" / "a.png", 8, 8)
    picture(tmp_path / "in" / "b.bmp", 8, 8)
    for out in (tmp_path / "in", tmp_path / "other" / ".." / "in"):
        with pytest.raises(UserError, match=r"a\.png is an input, and the picture of .* would overwrite it.*--out"):
            inference.generate("run", [tmp_path / "in"], out)
    np.testing.assert_array_equal(pixels_of(tmp_path / "in" / "a.png"), before)
    assert not (tmp_path / "in" / "b.png").exists(), "nothing is written before everything is known to fit"


def test_a_second_call_does_not_take_the_results_of_the_first_for_inputs(network, tmp_path):
    picture(tmp_path / "in" / "a.png", 8, 8)
    for _ in range(2):
        assert inference.generate("run", [tmp_path / "in"], tmp_path / "in" / "out") == [tmp_path / "in" / "out" / "a.png"]
    assert len(list((tmp_path / "in" / "out").rglob("*.png"))) == 1


def test_bad_files_are_named_and_counted_and_the_rest_is_done(network, tmp_path):
    for name in ("1.png", "3.png"):
        picture(tmp_path / "in" / name, 8, 8)
    (tmp_path / "in" / "2.png").write_bytes(b"")
    (tmp_path / "in" / "4.png").write_text("not an image")
    with pytest.raises(WorkError, match=r"(?s)2 of 4 images could not be used.*2\.png.*4\.png") as error:
        inference.generate("run", [tmp_path / "in"], tmp_path / "out")
    assert error.value.status == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [NAME, "1.png", "3.png"]


def test_an_output_that_is_no_number_is_no_picture(network, tmp_path):
    picture(tmp_path / "a.png", 8, 8)
    network.output = lambda inputs: np.full_like(inputs, np.nan)
    with pytest.raises(WorkError, match=r"1 of 1 images could not be used:\n.*(?s:.*)NaN"):
        inference.generate("run", [tmp_path / "a.png"], tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [NAME]


def test_bad_arguments_are_refused_before_the_network_is_opened(network, tmp_path):
    picture(tmp_path / "in" / "cat.png", 8, 8)
    (tmp_path / "empty").mkdir()
    for inputs, depth, message in (
        ([tmp_path / "in" / "cot.png"], 8, r"no file or folder .*cot\.png; the nearest is .*cat\.png"),
        ([tmp_path / "empty"], 8, "no images in .*empty"),
        ([tmp_path / "in"], 12, "12 bits per channel cannot be written; 8 and 16 can"),
    ):
        with pytest.raises(UserError, match=message):
            inference.generate("run", inputs, tmp_path / "out", depth=depth)
    assert not (tmp_path / "out").exists() and not network.prepared


def test_a_folder_that_cannot_be_written_is_told(network, tmp_path):
    picture(tmp_path / "in" / "a.png", 8, 8)
    (tmp_path / "out").write_text("a file")
    with pytest.raises(UserError, match=r"out is a file; name a folder"):
        inference.generate("run", [tmp_path / "in"], tmp_path / "out")
    with pytest.raises(WorkError, match=r"out.below cannot be written to: Not a directory"):
        inference.generate("run", [tmp_path / "in"], tmp_path / "out" / "below")


def test_grey_inputs_and_four_channel_outputs(network, tmp_path):
    network.channels, network.output_channels = 1, 4
    network.output = lambda inputs: np.concatenate([inputs] * 4, axis=-1)
    write_image(tmp_path / "a.png", np.full((9, 9, 3), 0.2))
    (written,) = inference.generate("run", [tmp_path / "a.png"], tmp_path / "out")
    assert pixels_of(written).shape == (9, 9, 4)


def test_rate_and_time_left_are_shown_only_when_it_takes_long(network, tmp_path, monkeypatch, capsys):
    for name in ("1.png", "2.png", "3.png"):
        picture(tmp_path / "in" / name, 8, 8)
    inference.generate("run", [tmp_path / "in"], tmp_path / "out")
    assert capsys.readouterr().err == f"3 pictures in {tmp_path / 'out'}\n"
    inference.generate("run", [tmp_path / "in"], tmp_path / "quiet", progress=False)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(generating, "Count", functools.partial(Count, quiet_seconds=-1.0))
    inference.generate("run", [tmp_path / "in"], tmp_path / "slow")
    shown = capsys.readouterr().err
    assert "images/s" in shown and "left" in shown and "3/3 images" in shown


def test_an_interrupted_folder_goes_on_where_it_stopped(network, tmp_path, capsys):
    pixels = [picture(tmp_path / "in" / f"{n}.png", 8, 8, seed=n) for n in range(6)]

    def killed_at_the_fourth(inputs):
        if len(network.shapes) == 4:
            raise KeyboardInterrupt
        return inputs

    network.output = killed_at_the_fourth
    with pytest.raises(KeyboardInterrupt):
        inference.generate("run", [tmp_path / "in"], tmp_path / "out")
    network.shapes.clear()
    capsys.readouterr()
    network.output = lambda inputs: inputs
    made = inference.generate("run", [tmp_path / "in"], tmp_path / "out")
    assert [path.name for path in made] == [f"{n}.png" for n in range(6)]
    assert "3 of 6 are in" in capsys.readouterr().err and len(network.shapes) == 3
    for path, expected in zip(made, pixels, strict=True):
        np.testing.assert_array_equal(pixels_of(path), expected)


def test_what_changed_is_made_again(network, tmp_path):
    for name in ("a.png", "b.png", "c.png"):
        picture(tmp_path / "in" / name, 8, 8)

    def calls(**settings):
        network.shapes.clear()
        inference.generate("run", [tmp_path / "in"], tmp_path / "out", **settings)
        return len(network.shapes)

    assert (calls(), calls()) == (3, 0)
    os.utime(tmp_path / "in" / "a.png", (1, 1))
    (tmp_path / "out" / "b.png").unlink()
    assert calls() == 2
    with (tmp_path / "out" / NAME).open("a") as ledger:
        ledger.write('{"target": "torn off by a kil')
    assert calls() == 0
    assert (calls(tile=32), calls(tile=32), calls(depth=16)) == (3, 0, 3)
    network.name = "trained on"
    assert (calls(), calls()) == (3, 0)


def test_a_full_disk_ends_the_work_with_what_was_done(network, tmp_path):
    for name in ("1.png", "2.png", "3.png"):
        picture(tmp_path / "in" / name, 64, 64)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(WorkError, match=r"1\.png cannot be written: File too large. 0 were; the same command goes on"):
            inference.generate("run", [tmp_path / "in"], tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in (tmp_path / "out").iterdir()] == [NAME]
    assert len(inference.generate("run", [tmp_path / "in"], tmp_path / "out")) == 3


def test_tiles_that_are_not_exact_are_told_once_and_only_where_there_are_some(network, tmp_path, capsys):
    for n in range(3):
        picture(tmp_path / "in" / f"{n}.png", 8, 8)
    inference.generate("run", [tmp_path / "in"], tmp_path / "out", tile=4)
    assert capsys.readouterr().err.count("A tile of 8 x 8 would be exact") == 1
    inference.generate("run", [tmp_path / "in"], tmp_path / "out", tile=8)
    assert "would be exact" not in capsys.readouterr().err


def test_a_super_resolving_network_is_given_the_small_image_enlarged(tmp_path):
    source = {"kind": "folder", "path": str(tmp_path), "task": {"kind": "super_resolve", "factor": 3}}
    data = recipe.read({"name": "sharp", "data": {"source": source, "size": 48}, "training": {"images": 16}}).data
    assert enlargement(data) == 3 and enlargement(dataclasses.replace(data, source=schema.Emoji())) == 1
    picture(tmp_path / "small.png", 10, 14)
    small, large = (Pictures(3, factor=factor).read(tmp_path / "small.png") for factor in (1, 3))
    assert large.shape == (30, 42, 3)
    again = tasks.super_resolve(schema.SuperResolve(factor=3), large, np.random.default_rng(0))
    assert np.abs(again - large).mean() < 0.5 * np.abs(small).mean(), "made as its training made its inputs"
