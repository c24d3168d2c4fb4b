"""What is shown while the compiler works."""

import io

from unetkit.tpu.progress import Line


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_one_line_is_rewritten_and_wiped_at_the_end():
    stream = Terminal()
    with Line("emoji", stream) as show:
        show("batch 128, optimising", 3.2, 95.0)
        show("batch 128, generating code", 20.0, None)
    lines = stream.getvalue().split("\r\x1b[2K")
    assert lines == ["", "emoji: batch 128, optimising, 3 s, about 95 s expected", "emoji: batch 128, generating code, 20 s", ""]


def test_in_a_log_a_line_comes_now_and_then_and_none_for_quick_answers():
    stream = io.StringIO()
    with Line("emoji", stream, pause=3600) as show:
        show("optimising", 0.0, None)
        assert stream.getvalue() == ""
        show.written -= 3600
        show("generating code", 3600.0, 4000.0)
        show("finishing", 3601.0, 4000.0)
    assert stream.getvalue() == "emoji: generating code, 3600 s, about 4000 s expected\n"
