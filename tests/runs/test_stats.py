"""The log of a run: one JSON object per line, cut when a run goes back to a checkpoint."""

import numpy as np
import pytest

from unetkit import runs
from unetkit.errors import UserError
from unetkit.runs import Stats, read_stats


def test_numbers_come_back_exactly_and_infinities_as_null(tmp_path):
    with Stats(tmp_path / "s.jsonl") as log:
        log.write(
            {"step": np.int64(1), "loss": np.float32(0.1), "parts": {"l1": 1 / 3}, "sizes": (np.float64(2.5), "x"), "bad": float("nan")}
        )
        log.write({"step": 2, "loss": float("inf"), "lr": np.asarray(1e-4)})
        assert read_stats(tmp_path / "s.jsonl")[0]["step"] == 1, "a line can be read before the log is closed"
    first, second = read_stats(tmp_path / "s.jsonl")
    assert first == {"step": 1, "loss": float(np.float32(0.1)), "parts": {"l1": 1 / 3}, "sizes": [2.5, "x"], "bad": None}
    assert second == {"step": 2, "loss": None, "lr": 1e-4}


def test_a_line_needs_its_step(tmp_path):
    with Stats(tmp_path / "s.jsonl") as log, pytest.raises(ValueError, match="needs its step; got only loss"):
        log.write({"loss": 1.0})


def test_a_log_cut_and_continued_equals_one_never_interrupted(tmp_path):
    lines = [{"step": step, "loss": 1 / step} for step in range(1, 11)] + [{"step": 10, "val_psnr": 11.0}]
    for until in range(len(lines) + 1):
        path = tmp_path / f"{until}.jsonl"
        with Stats(path) as log:
            for line in lines[:until]:
                log.write(line)
        with open(path, "ab") as stream:
            stream.write(b'{"step": 8, "lo')
        with Stats(path) as log:
            log.cut(5)
            for line in lines[min(until, 5) :]:
                log.write(line)
        assert read_stats(path) == lines


@pytest.mark.parametrize("rest", ['{"step": 3', '{"step": 3, "loss": 2.0}', "\x00\x00", '{"text": "' + "x" * 9000])
def test_an_unfinished_last_line_is_left_out_and_replaced(tmp_path, rest):
    path = tmp_path / "s.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n' + rest)
    assert read_stats(path) == [{"step": 1}, {"step": 2}]
    with Stats(path) as log:
        log.write({"step": 3})
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n{"step": 3}\n'


def test_a_log_that_is_one_unfinished_line_starts_anew(tmp_path):
    (tmp_path / "s.jsonl").write_text('{"text": "' + "x" * 9000)
    with Stats(tmp_path / "s.jsonl") as log:
        log.write({"step": 1})
    assert read_stats(tmp_path / "s.jsonl") == [{"step": 1}]


def test_a_damaged_line_in_the_middle_is_named(tmp_path):
    (tmp_path / "s.jsonl").write_text('{"step": 1}\n[2]\n{"step": 3}\n')
    with pytest.raises(UserError, match=r"line 2: expected one JSON object, got b'\[2\]"):
        read_stats(tmp_path / "s.jsonl")


def test_a_run_with_a_damaged_line_resumes_without_it(tmp_path, recipe, arrays):
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        run.log.write({"step": 1})
        run.save(1, 10, arrays(1), {})
    with open(run.path / "stats.jsonl", "ab") as stream:
        stream.write(b"\x00\x00\n")
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        assert run.stats() == [{"step": 1}]


def test_no_file_is_no_lines(tmp_path):
    assert read_stats(tmp_path / "none.jsonl") == []
