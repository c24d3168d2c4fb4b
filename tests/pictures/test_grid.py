"""Sample grids: what is drawn where, and how values become pixels."""

import numpy as np
import pytest
from PIL import Image

from unetkit import pictures
from unetkit.pictures.grid import GAP, MOST_SIDE, to_picture

RED, GREEN, BLUE = (1.0, -1.0, -1.0), (-1.0, 1.0, -1.0), (-1.0, -1.0, 1.0)


def opened(path):
    with Image.open(path) as image:
        return image.convert("RGB")


def flat(color, height=64, width=64):
    return np.tile(np.asarray(color, np.float32), (height, width, 1))


def test_a_small_image_is_enlarged_so_that_every_pixel_shows():
    image = np.random.default_rng(0).uniform(-1, 1, (64, 64, 3))
    shown = np.asarray(to_picture(image))
    assert shown.shape == (192, 192, 3)
    expected = np.rint((image + 1) * 127.5).astype(np.uint8)
    for i in range(3):
        for j in range(3):
            np.testing.assert_array_equal(shown[i::3, j::3], expected)


def test_values_are_clipped_then_rounded():
    values = np.array([-5, -1, -1 + 0.4 / 127.5, -1 + 0.6 / 127.5, 0.0, 1.0, 9.0, np.nan], np.float32)
    shown = np.asarray(to_picture(np.tile(values[None, :, None], (1, 1, 3))))
    factor = shown.shape[1] // len(values)
    assert shown[0, ::factor, 0].tolist() == [0, 0, 0, 1, 128, 255, 255, 0]


@pytest.mark.parametrize(
    ("size", "shown"), [((64, 32), (192, 96)), ((200, 100), (200, 100)), ((1, 1), (192, 192)), ((2000, 1000), (500, 250))]
)
def test_sizes_change_by_whole_factors(size, shown):
    picture = to_picture(flat(RED, *size))
    assert (picture.height, picture.width) == shown and max(shown) <= MOST_SIDE


def test_grey_is_shown_as_rgb_and_transparency_on_white():
    assert to_picture(flat([0.0])).getpixel((0, 0)) == (128, 128, 128)
    assert to_picture(flat([1.0, -1.0, -1.0, -1.0])).getpixel((0, 0)) == (255, 255, 255)
    assert to_picture(flat([1.0, -1.0, -1.0, 1.0])).getpixel((0, 0)) == (255, 0, 0)


def test_columns_stand_in_order_under_their_titles(tmp_path):
    pictures.grid([[flat(RED), flat(GREEN), flat(BLUE)]], ("input", "output", "truth"), tmp_path / "grid.png")
    page = opened(tmp_path / "grid.png")
    middle = page.height - GAP - 96
    assert [page.getpixel((GAP + 96 + column * (192 + GAP), middle)) for column in range(3)] == [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    for column in range(3):
        title = np.asarray(page.convert("L"))[: GAP + 20, GAP + column * (192 + GAP) : GAP + column * (192 + GAP) + 192]
        assert title.min() < 100, f"no dark letter above column {column}"


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 64])
def test_every_row_is_on_the_page_and_the_page_is_no_ribbon(tmp_path, rows):
    shades = np.linspace(-1, 0.9, rows)
    pictures.grid([[flat([shade] * 3), flat([shade] * 3), flat(RED)] for shade in shades], ("a", "b", "c"), tmp_path / "grid.png")
    page = opened(tmp_path / "grid.png")
    present = {color for _, color in page.getcolors(1 << 16)}
    assert {(round((shade + 1) * 127.5),) * 3 for shade in shades} - {(128,) * 3} <= present
    assert 0.5 < page.width / page.height < 4


def test_a_title_wider_than_its_images_widens_the_column(tmp_path):
    pictures.grid([[flat(RED, 200, 20), flat(GREEN, 200, 20)]], ("a title that is long", "b"), tmp_path / "grid.png")
    page = np.asarray(opened(tmp_path / "grid.png"))
    ink = (page[:20] < 100).all(axis=-1).any(axis=0)
    assert not ink[0] and not ink[-1], "no letter is cut off"


def test_an_existing_picture_is_replaced_whole(tmp_path):
    path = tmp_path / "grid.png"
    path.write_bytes(b"old")
    pictures.grid([[flat(RED)]], ("a",), path)
    assert opened(path).width > 192 and [file.name for file in tmp_path.iterdir()] == ["grid.png"]


def test_rows_that_do_not_fit_the_titles_are_an_error(tmp_path):
    for rows in ([], [[flat(RED)]], [[flat(RED)] * 2, [flat(RED)]]):
        with pytest.raises(ValueError, match=r"expected rows of 2 images \(a, b\)"):
            pictures.grid(rows, ("a", "b"), tmp_path / "grid.png")
    assert not list(tmp_path.iterdir())
