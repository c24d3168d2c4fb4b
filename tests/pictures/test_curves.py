"""Curves: which panels there are, what they hold, and that a process's plotting state stays as it was."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from unetkit import pictures
from unetkit.pictures.curves import parts, series

TRAIN = [
    {"step": s, "images": 16 * s, "loss": 1 / s, "learning_rate": 1e-3, "images_per_second": 50.0, "input_wait_share": 0.1}
    for s in (1, 2, 3)
]
VALID = [{"step": s, "images": 16 * s, "val_l1": 0.2, "val_psnr": 10.0 + s, "val_ssim": 0.5} for s in (2, 3)]


@pytest.fixture
def drawn(monkeypatch):
    """The figures that were saved: title -> {label: (x, y)}."""
    found = []
    save = Figure.savefig

    def keep(figure, *args, **kwargs):
        found.append({axes.get_title(): {line.get_label(): line.get_data() for line in axes.lines} for axes in figure.axes})
        save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", keep)
    return found


def test_a_whole_run_has_six_panels_over_images(tmp_path, drawn):
    pictures.curves([*TRAIN, *VALID], tmp_path / "curves.png")
    assert list(drawn[0]) == [
        "training loss",
        "validation PSNR (dB)",
        "validation SSIM",
        "validation L1 (share of the range)",
        "learning rate",
        "images per second",
    ]
    x, y = drawn[0]["validation PSNR (dB)"]["val_psnr"]
    assert list(x) == [32, 48] and list(y) == [12.0, 13.0]
    assert list(drawn[0]["training loss"]) == ["loss"]
    with Image.open(tmp_path / "curves.png") as image:
        assert image.format == "PNG" and image.width > 1000
    assert [file.name for file in tmp_path.iterdir()] == ["curves.png"]


def test_before_the_first_validation_only_the_other_panels_are_drawn(tmp_path, drawn):
    pictures.curves(TRAIN[:1], tmp_path / "curves.png")
    assert list(drawn[0]) == ["training loss", "learning rate", "images per second"]


def test_nothing_to_show_writes_nothing(tmp_path):
    pictures.curves([], tmp_path / "curves.png")
    pictures.curves([{"step": 1, "images": 16, "note": "x"}], tmp_path / "curves.png")
    assert not list(tmp_path.iterdir())


def test_the_parts_of_a_loss_are_drawn_with_it_unless_it_has_one():
    lines = [{**line, "l1": 0.5, "adversarial": 0.1} for line in TRAIN]
    assert parts([*lines, *VALID]) == ["l1", "adversarial"]
    assert parts([{**line, "l1": 0.5} for line in TRAIN]) == []


def test_a_null_is_a_gap(tmp_path, drawn):
    lines = [TRAIN[0], {**TRAIN[1], "loss": None}, TRAIN[2]]
    images, values = series(lines, "loss")
    assert images == [16, 32, 48] and np.isnan(values[1]) and values[0] == 1.0
    pictures.curves(lines, tmp_path / "curves.png")
    assert len(drawn[0]["training loss"]["loss"][0]) == 3


def test_a_line_at_image_zero_is_drawn_without_complaint(tmp_path):
    pictures.curves([{"step": 0, "images": 0, "val_psnr": 8.0}], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").exists()


def test_the_room_loads_no_plotting_and_drawing_leaves_no_global_state(tmp_path):
    program = f"""
import sys
import unetkit.pictures
before = 'matplotlib' in sys.modules
unetkit.pictures.curves([{{"step": 1, "images": 16, "loss": 1.0}}], {str(tmp_path / "c.png")!r})
print(before, 'matplotlib.pyplot' in sys.modules, 'keras' in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False False False\n"
