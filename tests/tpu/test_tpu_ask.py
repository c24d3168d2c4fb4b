"""Asking in a child process, with a stand-in for the Python that has the compiler: what may go wrong there stays there."""

import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from unetkit.tpu import ask
from unetkit.tpu.cache import Cache
from unetkit.tpu.chips import chip
from unetkit.tpu.environment import Interpreter

V2, V3 = chip("v2-8"), chip("v3-8")
ANSWER = '{"outcome": "OUTCOME", "memory": {}, "cost": {}, "versions": {}, "seconds": 1.0, "message": null}'


@pytest.fixture
def stand_in(tmp_path):
    """`stand_in(shell lines, outcome) -> Interpreter`: runs the lines with the work folder as $2, and counts its runs."""

    def make(lines: str = "", outcome: str = "compiled") -> Interpreter:
        path = tmp_path / "python"
        answer = ANSWER.replace("OUTCOME", outcome)
        path.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\nmkdir -p $2/dump\n{lines}\necho '{answer}' > $2/result.json\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return Interpreter(str(path), {"jax": "0.10.2", "libtpu": "0.0.52"}, "a test")

    make.runs = lambda: len((tmp_path / "runs").read_text().split())
    return make


def request(cache: Path, interpreter: Interpreter, code: bytes = b"program", where=V2, stage="full"):
    return ask.compile_program(ask.Program(code=code), where, stage=stage, cache=Cache(cache), interpreter=interpreter)


def test_an_answer_is_asked_for_once(tmp_path, stand_in):
    python = stand_in("echo HloModule > $2/dump/m.after_codegen.txt")
    first, cached = request(tmp_path / "cache", python)
    assert (first.outcome, first.program, cached) == ("compiled", "HloModule\n", False)
    again, cached = request(tmp_path / "cache", python)
    assert (again, cached) == (first, True)
    assert stand_in.runs() == 1


def test_the_key_holds_program_chip_compiler_and_stage(tmp_path, stand_in):
    python = stand_in(outcome="memory")
    other = Interpreter(python.python, {"jax": "0.10.2", "libtpu": "0.0.53"}, "a test")
    for interpreter, code, where in ((python, b"p", V2), (python, b"q", V2), (python, b"p", V3), (other, b"p", V2)):
        assert request(tmp_path / "cache", interpreter, code, where, "memory")[1] is False
    assert request(tmp_path / "cache", python, b"p", V2, "full")[1] is False
    assert stand_in.runs() == 5


def test_a_full_answer_serves_where_memory_is_wanted(tmp_path, stand_in):
    python = stand_in()
    request(tmp_path / "cache", python)
    assert request(tmp_path / "cache", python, stage="memory")[1] is True


def test_a_refusal_for_size_serves_every_stage(tmp_path, stand_in):
    python = stand_in(outcome="oom")
    request(tmp_path / "cache", python, stage="memory")
    record, cached = request(tmp_path / "cache", python, stage="full")
    assert (record.outcome, cached) == ("oom", True)


@pytest.mark.parametrize(("lines", "death"), [("kill -SEGV $$", "killed by SIGSEGV"), ("echo no such symbol >&2; exit 7", "exit status 7")])
def test_a_crash_is_an_answer_and_is_not_kept(tmp_path, stand_in, lines, death):
    python = stand_in(f"touch $2/dump/m.before_optimizations.txt; {lines}")
    record, cached = request(tmp_path / "cache", python)
    assert record.outcome == "crashed" and death in record.message and "optimising" in record.message
    assert not cached and request(tmp_path / "cache", python)[1] is False
    assert stand_in.runs() == 2


def test_a_stop_kills_the_child_and_what_it_started(tmp_path, stand_in):
    python = stand_in(f"echo $$ > {tmp_path}/pid; sleep 600 & echo $! >> {tmp_path}/pid; wait")
    script = textwrap.dedent(
        f"""
        import signal
        from pathlib import Path
        from unetkit.tpu import ask
        from unetkit.tpu.cache import Cache
        from unetkit.tpu.chips import chip
        from unetkit.tpu.environment import Interpreter
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs start with it ignored
        python = Interpreter({python.python!r}, {python.versions!r}, "a test")
        ask.compile_program(ask.Program(code=b"p"), chip("v2-8"), cache=Cache(Path({str(tmp_path)!r}) / "cache"), interpreter=python)
        """
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True)
    pids = wait_for(lambda: (tmp_path / "pid").read_text().split() if (tmp_path / "pid").exists() else [], 2)
    parent.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in parent.communicate(timeout=120)[1]
    for pid in map(int, pids):
        wait_for(lambda pid=pid: [] if alive(pid) else [pid], 1)
    assert not Cache(tmp_path / "cache").usage().entries


@pytest.mark.parametrize(
    ("files", "stage"),
    [
        ([], "starting the compiler"),
        (["m.before_optimizations.txt"], "optimising"),
        (["m.before_optimizations.txt", "m.after_optimizations_before_buffer_assignment.txt"], "placing buffers"),
        (["m.before_optimizations.txt", "m.after_optimizations_after_buffer_assignment.txt"], "generating code"),
        (["m.before_optimizations.txt", "m.after_codegen.txt"], "finishing"),
    ],
)
def test_the_stage_is_told_by_what_the_compiler_has_written(tmp_path, files, stage):
    for name in files:
        (tmp_path / name).touch()
    assert ask.stage_of(tmp_path) == stage


def wait_for(look, count: int) -> list:
    """What `look()` returns once it has `count` items."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if len(found := look()) == count:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited 120 s for {count} items; have {found}")


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
