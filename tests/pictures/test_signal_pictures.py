"""Signals as pictures: what the spectrogram says, and that a picture comes of whatever is given."""

import numpy as np
import pytest
from PIL import Image

from unetkit import pictures
from unetkit.pictures.signals import FLOOR_DB, spectrogram


def test_a_sine_of_full_scale_is_one_line_of_0_dB():
    shown = spectrogram(np.sin(2 * np.pi * np.arange(4096) * 16 / 128))
    frequencies, columns = shown.shape
    assert (frequencies, columns) == (65, 4096 // 64 - 1)
    assert set(shown.argmax(axis=0)) == {16}
    np.testing.assert_allclose(shown.max(axis=0), 0, atol=0.05)
    assert (spectrogram(np.zeros(100)) == FLOOR_DB).all()


@pytest.mark.parametrize("length", [1, 5, 64, 4096])
def test_a_picture_has_a_cell_for_every_signal(tmp_path, length):
    signal = np.random.default_rng(0).uniform(-1, 1, (length, 2))
    signal[0] = np.nan
    pictures.signals([(signal, signal, 0 * signal)] * 2, ("input", "output", "truth"), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        width, height = image.size
        assert width > height > 100 and len(image.convert("L").getcolors(256)) > 3
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_rows_and_titles_must_agree(tmp_path):
    with pytest.raises(ValueError, match=r"rows of 3 signals \(input, output, truth\), got rows of \[2\]"):
        pictures.signals([(np.zeros((4, 1)),) * 2], ("input", "output", "truth"), tmp_path / "a.png")
    with pytest.raises(ValueError):
        pictures.signals([], ("input",), tmp_path / "a.png")
