"""Reading and writing single images: what inference uses."""

import numpy as np
import pytest
from PIL import Image

from unetkit.data.decode import read_header
from unetkit.data.images import read_image, write_image
from unetkit.errors import UserError, WorkError

KINDS = [(8, c, e) for c in (1, 3, 4) for e in ("png", "bmp", "tif", "webp") if (c, e) != (4, "bmp")]
KINDS += [(16, c, "png") for c in (1, 3, 4)]


@pytest.mark.parametrize(("depth", "channels", "ending"), KINDS)
def test_every_value_survives_a_round_trip(tmp_path, depth, channels, ending):
    top = 2**depth - 1
    steps = np.arange(256) if depth == 8 else np.linspace(0, top, 4096).round()
    array = (np.resize(steps, (64, steps.size // 64, channels)) / top * 2 - 1).astype(np.float32)
    write_image(tmp_path / f"a.{ending}", array, depth)
    read = read_image(tmp_path / f"a.{ending}", channels)
    assert (read + 1) / 2 * top == pytest.approx((array + 1) / 2 * top, abs=0.01)
    write_image(tmp_path / f"b.{ending}", read, depth)
    assert (tmp_path / f"b.{ending}").read_bytes() == (tmp_path / f"a.{ending}").read_bytes()


def test_values_are_clipped_then_rounded(tmp_path):
    array = np.array([[-1.5, -1, -0.998, 0, 0.999, 1, 7]])
    write_image(tmp_path / "a.png", array)
    # by hand: 127.5 * (x + 1) is 0, 0, 0.255, 127.5 (to the even), 254.87, 255, 255
    assert np.asarray(Image.open(tmp_path / "a.png")).tolist() == [[0, 0, 0, 128, 255, 255, 255]]
    write_image(tmp_path / "b.png", array, 16)
    # 32767.5 * (x + 1) is 0, 0, 65.535, 32767.5 (to the even), 65502.2, 65535, 65535
    assert np.asarray(Image.open(tmp_path / "b.png")).tolist() == [[0, 0, 66, 32768, 65502, 65535, 65535]]


def test_a_grey_image_may_lack_its_channel_axis(tmp_path):
    write_image(tmp_path / "a.png", np.zeros((2, 3)))
    assert read_header(tmp_path / "a.png").mode == "L"
    assert read_image(tmp_path / "a.png", 1).shape == (2, 3, 1)


def test_read_values_lie_within_the_range(tmp_path):
    Image.new("RGB", (2, 1), (0, 128, 255)).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png")[0, 0] == pytest.approx([-1, 1 / 255, 1], abs=1e-7)
    assert read_image(tmp_path / "a.png").max() <= 1


@pytest.mark.parametrize(
    ("name", "shape", "depth", "words"),
    [
        ("a.jpg", (2, 2, 3), 16, "16-bit.*known: .png"),
        ("a.xyz", (2, 2, 3), 8, r"\.xyz.*known: .png, .jpg"),
        ("a", (2, 2, 3), 8, "without ending"),
        ("a.png", (2, 2, 2), 8, r"\(2, 2, 2\)"),
        ("a.png", (0, 2, 3), 8, r"\(0, 2, 3\)"),
        ("a.png", (2, 2, 3), 12, "12 bits.*8 and 16"),
        ("a.jpg", (2, 2, 4), 8, "JPEG cannot hold transparency"),
        ("a.bmp", (2, 2, 4), 8, "BMP cannot hold transparency"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, name, shape, depth, words):
    with pytest.raises(UserError, match=words):
        write_image(tmp_path / name, np.zeros(shape), depth)
    assert list(tmp_path.iterdir()) == []


def test_not_a_number_is_refused_and_leaves_the_old_file(tmp_path):
    write_image(tmp_path / "a.png", np.zeros((2, 2)))
    before = (tmp_path / "a.png").read_bytes()
    with pytest.raises(WorkError, match="NaN"):
        write_image(tmp_path / "a.png", np.array([[0, np.nan]]))
    assert (tmp_path / "a.png").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_two_channels_cannot_be_read(solid):
    with pytest.raises(UserError, match=r"2 channels.*1 is grey"):
        read_image(solid("a.png"), 2)
