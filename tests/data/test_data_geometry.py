"""Resize policies by hand, and the same geometry for both members of a pair."""

import numpy as np
import pytest
from PIL import Image

from unetkit.data import open_dataset
from unetkit.data.geometry import Fit, ground
from unetkit.recipe import schema

BLACK, GREY = (0, 0, 0), (100, 100, 100)


def fit(height, width, policy, background=BLACK):
    return Fit(height=height, width=width, policy=policy, background=background)


def blocks(rows, side=8):
    """A picture of solid blocks, one per value."""
    return Image.fromarray(np.kron(np.array(rows, np.uint8), np.ones((side, side), np.uint8)))


def test_the_right_size_is_left_alone():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    for policy in ("stretch", "crop", "pad"):
        assert np.array_equal(fit(5, 7, policy).array([Image.fromarray(pixels)]), pixels)


def test_stretch_uses_the_whole_picture():
    result = fit(16, 16, "stretch").array([blocks([[10, 20, 30, 40]])])[..., 0]
    assert result.shape == (16, 16)
    assert result[:, [1, 6, 9, 14]].mean(axis=0) == pytest.approx([10, 20, 30, 40], abs=1)


def test_crop_fills_and_cuts_the_centre():
    wide = fit(8, 16, "crop").array([blocks([[10, 20, 30, 40]])])[..., 0]
    assert np.array_equal(wide, np.repeat([[20, 30]], 8, axis=1).repeat(8, axis=0))
    tall = fit(16, 8, "crop").array([blocks([[10], [20], [30], [40]])])[..., 0]
    assert np.array_equal(tall[:, 0], np.repeat([20, 30], 8))


def test_crop_enlarges_what_is_too_small():
    result = fit(32, 32, "crop").array([blocks([[10, 20, 20, 30]])])[..., 0]
    assert result.shape == (32, 32)
    assert np.unique(result).tolist() == [20]


def test_pad_keeps_the_whole_picture_and_centres_it():
    result = fit(32, 32, "pad", GREY).array([blocks([[10, 20, 30, 40]])])[..., 0]
    assert result.shape == (32, 32)
    assert np.array_equal(np.unique(result[:12]), [100])
    assert np.array_equal(np.unique(result[20:]), [100])
    assert np.array_equal(result[12:20], np.asarray(blocks([[10, 20, 30, 40]])))


def test_pad_of_an_extreme_shape_keeps_at_least_one_pixel():
    result = fit(4, 4, "pad", GREY).array([Image.new("L", (1000, 2), 7)])[..., 0]
    assert (result == 7).sum() == 4
    assert (result == 100).sum() == 12


def test_the_background_in_each_channel_count():
    assert ground((200, 100, 50), 1) == (124,)
    assert ground((200, 100, 50), 3) == (200, 100, 50)
    assert ground((200, 100, 50), 4) == (200, 100, 50, 255)


@pytest.mark.parametrize("policy", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("size", [(9, 31), (31, 9), (64, 64), (200, 3), (1, 1)])
def test_any_size_becomes_the_size_asked_for(policy, size):
    for mode, channels in (("L", 1), ("RGB", 3), ("RGBA", 4)):
        assert fit(12, 20, policy).array([Image.new(mode, size)]).shape == (12, 20, channels)
    deep = [Image.new("F", size, 300.0)] * 3
    assert fit(12, 20, policy).array(deep).max() == 255


def test_16_bits_go_the_way_of_8():
    pixels = np.random.default_rng(0).integers(0, 256, (40, 30, 4), np.uint8)
    planes = [Image.fromarray(pixels[..., i].astype(np.float32)) for i in range(4)]
    for policy in ("stretch", "crop", "pad"):
        eight, deep = fit(10, 10, policy).array([Image.fromarray(pixels)]), fit(10, 10, policy).array(planes)
        assert deep.dtype == np.float32
        assert deep == pytest.approx(eight.astype(np.float32), abs=3)  # Pillow's premultiplied RGBA is rounded to 8 bits


def test_colour_under_transparent_pixels_does_not_bleed():
    pixels = np.zeros((8, 8, 4), np.float32)
    pixels[:, :4] = (0, 0, 0, 255)
    pixels[:, 4:] = (255, 255, 255, 0)
    result = fit(2, 2, "stretch").array([Image.fromarray(np.ascontiguousarray(pixels[..., i])) for i in range(4)])
    assert result[..., :3].max() == 0


@pytest.mark.parametrize("policy", ["stretch", "crop", "pad"])
def test_both_members_have_the_same_geometry(tmp_path, policy):
    """A photograph as JPEG and its copy as PNG, of odd shape, with everything random switched on, stay aligned."""
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    rows, columns = np.mgrid[0:192, 0:256]
    pixels = (127 + 60 * np.sin(rows / 20) + 60 * np.cos(columns / 25 + rows / 40)).astype(np.uint8)
    exif = Image.Exif()
    exif[0x112] = 6
    for number in range(3):
        Image.fromarray(np.rot90(pixels, 1)).save(tmp_path / "a" / f"{number}.jpg", quality=97, exif=exif)
        Image.fromarray(pixels).save(tmp_path / "b" / f"{number}.png")
    augment = schema.Augment(flip="both", crop_margin=0.4, brightness=0.2, contrast=0.2)
    source = schema.Pairs(inputs=str(tmp_path / "a"), targets=str(tmp_path / "b"))
    data = schema.Data(source=source, size=(24, 32), resize=policy, augment=augment, input_channels=1, target_channels=1)
    with open_dataset(data).train.batches(16) as batches:
        batch = next(batches)
    assert np.abs(batch["input"] - batch["target"]).max() < 0.06
    assert np.abs(batch["target"][0] - batch["target"][1:]).max(axis=(1, 2, 3)).min() > 0.06  # and they do differ
