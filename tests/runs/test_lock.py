"""One writer per run folder."""

import errno
import json
import os
import platform
import signal
import subprocess
import sys

import pytest

from unetkit import runs
from unetkit.errors import UserError
from unetkit.runs import lock as lock_module
from unetkit.runs.lock import Lock

HOLD = """
import sys
from unetkit.runs.lock import Lock
Lock(__import__("pathlib").Path(sys.argv[1])).acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of tmp_path until its standard input is closed, or it is killed."""
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"held\n"
    yield child
    child.stdin.close()
    child.stdout.close()
    child.wait()


def test_a_second_process_is_told_who_writes(tmp_path, recipe, holder):
    with pytest.raises(UserError, match=rf"is being written by process {holder.pid} on {platform.node()}.*--run"):
        runs.RunFolder.open(tmp_path, recipe())
    assert sorted(os.listdir(tmp_path)) == [".lock"], "the refused process must not write into the folder"


def test_the_lock_of_a_killed_process_is_free(tmp_path, recipe, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    with runs.RunFolder.open(tmp_path, recipe()) as run:
        assert run.status == "new"
        assert json.loads((tmp_path / ".lock").read_text())["pid"] == os.getpid()


def test_a_second_run_in_the_same_process_is_refused_until_the_first_closes(tmp_path, recipe):
    with runs.RunFolder.open(tmp_path / "r", recipe()), pytest.raises(UserError, match="already open for writing in this process"):
        runs.RunFolder.open(tmp_path / "r", recipe())
    runs.RunFolder.open(tmp_path / "r", recipe()).close()


def test_a_run_that_could_not_be_opened_holds_no_lock(tmp_path, recipe):
    runs.RunFolder.open(tmp_path / "r", recipe()).close()
    (tmp_path / "r" / "recipe.yaml").write_text("[")
    for _ in range(2):
        with pytest.raises(UserError, match="is damaged"):
            runs.RunFolder.open(tmp_path / "r", recipe())


def test_reading_needs_no_lock(tmp_path, recipe):
    with runs.RunFolder.open(tmp_path / "r", recipe()):
        assert runs.read(tmp_path / "r").recipe["name"] == "tiny"


def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    first = Lock(tmp_path / ".lock")
    first.acquire()
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(tell, b"x")
        signal.pause()
    try:
        assert os.read(ready, 1) == b"x"
        first.release()
        second = Lock(tmp_path / ".lock")
        second.acquire()
        second.release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(tell)


def test_an_unreadable_note_still_refuses(tmp_path, holder):
    (tmp_path / ".lock").write_bytes(b"\xff")
    with pytest.raises(UserError, match=r"process \(unknown\) on an unknown machine"):
        Lock(tmp_path / ".lock").acquire()


def test_a_file_system_without_locks_is_told(tmp_path, recipe, monkeypatch):
    def refuse(descriptor):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(lock_module, "_try_lock", refuse)
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        assert "has no locks: see to it that no second process writes to it" in run.messages[0]
