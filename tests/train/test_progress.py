"""The progress line: rewritten on a terminal, a new line now and then elsewhere."""

import io

import pytest

from unetkit.progress import Line, clock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3725, "1:02:05")])
def test_clock(seconds, text):
    assert clock(seconds) == text


def test_a_log_file_gets_whole_lines_with_rate_loss_and_time_left():
    stream = io.StringIO()
    line = Line(1000, stream, pause=0.0)
    line.update(100, None, None)
    line.update(250, 50.0, 0.125)
    line.close()
    assert stream.getvalue() == "100/1,000 images   10%  compiling\n250/1,000 images   25%  50 images/s  loss 0.1250  0:15 left\n"


def test_a_log_file_is_not_flooded_but_gets_the_last_line():
    stream = io.StringIO()
    line = Line(100, stream, pause=3600.0)
    for images in (1, 2, 3, 100):
        line.update(images, 1.0, 0.5)
    assert [row.split("/")[0] for row in stream.getvalue().splitlines()] == ["1", "100"]


def test_a_terminal_line_is_wiped_before_a_note():
    stream = Terminal()
    line = Line(100, stream)
    line.update(50, 10.0, 0.5)
    line.note("saved")
    line.close()
    shown = stream.getvalue()
    assert "\r" in shown and "saved\n" in shown and shown.endswith("\n")
