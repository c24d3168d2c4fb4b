"""Killed at any instant, a run folder opens again with a whole checkpoint and ends as if nothing had happened."""

import builtins
import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np

from unetkit import runs


class Killed(BaseException):
    """Stands for SIGKILL: no `except Exception` may see it."""


class KillSwitch:
    """Counts the calls that change the disk and raises at the n-th: before it does anything, a write after half of it."""

    OS_CALLS = ("replace", "fsync", "unlink", "rmdir", "mkdir", "open", "ftruncate")

    def __init__(self, monkeypatch, at):
        self.at, self.calls = at, 0
        for name in self.OS_CALLS:
            monkeypatch.setattr(os, name, self.counting(getattr(os, name)))
        monkeypatch.setattr(builtins, "open", self.opening(builtins.open))
        monkeypatch.setattr("unetkit.runs.stats.FileIO", lambda path, mode: DyingFile(path, mode, self))

    def is_now(self):
        self.calls += 1
        return self.calls == self.at

    def counting(self, function):
        def call(*args, **kwargs):
            if self.is_now():
                raise Killed
            return function(*args, **kwargs)

        return call

    def opening(self, function):
        def call(file, mode="r", *args, **kwargs):
            return DyingFile(file, "w", self) if mode == "wb" else function(file, mode, *args, **kwargs)

        return call


class DyingFile(io.FileIO):
    """A file without a buffer: what has been written is on the disk at the kill."""

    def __init__(self, path, mode, switch):
        super().__init__(path, mode)
        self.switch = switch

    def write(self, data):
        if self.switch.is_now():
            super().write(memoryview(data).cast("B")[: len(data) // 2])
            raise Killed
        return super().write(data)


def work(folder, recipe_text, arrays, until):
    """Trains from wherever the folder stands up to step `until`, with a checkpoint every 10 steps. Returns where it began."""
    with runs.RunFolder.open(folder, recipe_text) as run:
        first = run.start.step if run.start else 0
        if run.start:
            for group, named in arrays(first).items():
                for name, array in run.start.arrays(group).items():
                    np.testing.assert_array_equal(array, named[name])
        for step in range(first + 5, until + 1, 5):
            run.log.write({"step": step, "loss": 1.0 / step})
            if step % 10 == 0:
                run.save(step, step * 10, arrays(step), {"metrics": {"psnr": -abs(step - 10)}})
        if run.status != "done":
            run.finish({"step": until, "images": until * 10})
    return first


def content(folder):
    """Everything a user sees of a run: checkpoints and log byte by byte."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name not in {".lock", "history.jsonl", "DONE"}]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def kill_everywhere(monkeypatch, before, recipe_text, arrays, until, allowed):
    """Kills `work` at its first disk call, its second, and so on; after each kill goes on and compares the end."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # its place is counted; waiting for the disk is not needed
    straight = before.with_name("straight")
    shutil.copytree(before, straight)
    work(straight, recipe_text, arrays, until)
    starts, at = [], 0
    while True:
        at += 1
        folder = before.with_name("killed")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(before, folder)
        with monkeypatch.context() as patch:
            switch = KillSwitch(patch, at)
            with contextlib.suppress(Killed):
                work(folder, recipe_text, arrays, until)
        if switch.calls < at:
            break
        starts.append(work(folder, recipe_text, arrays, until))
        assert content(folder) == content(straight), f"killed at disk call {at}"
    assert set(starts) == allowed, "every kill must find the newest complete checkpoint"
    assert starts == sorted(starts), "a later kill must not find an older checkpoint"


def short_recipe(images):
    """Only what the run folder must know: these tests open it several hundred times."""
    return f"training: {{images: {images}, batch: 10}}\ncheckpoint: {{keep_last: 2, keep_best: true, metric: psnr}}\n"


def test_killed_at_every_disk_call_while_resuming_and_saving(tmp_path, monkeypatch, arrays):
    work(tmp_path / "before", short_recipe(200), arrays, 20)
    kill_everywhere(monkeypatch, tmp_path / "before", short_recipe(300), arrays, 30, {20, 30})


def test_killed_at_every_disk_call_of_a_new_run(tmp_path, monkeypatch, arrays):
    (tmp_path / "before").mkdir()
    kill_everywhere(monkeypatch, tmp_path / "before", short_recipe(100), arrays, 10, {0, 10})


def test_really_killed_at_random_moments(tmp_path, recipe):
    """A child saves without pause and is killed with SIGKILL; every restart finds whole checkpoints and only goes forward."""
    (tmp_path / "recipe.yaml").write_text(recipe())
    program = textwrap.dedent("""
        import sys, numpy as np
        from unetkit import runs
        with runs.RunFolder.open(sys.argv[1], open(sys.argv[2]).read()) as run:
            step = run.start.step if run.start else 0
            print("ready", flush=True)
            while True:
                step += 1
                run.log.write({"step": step})
                array = np.full(200_000, step, np.float32)
                run.save(step, step, {"weights": {"w": array}, "optimizer": {"m": array}}, {})
    """)
    chance = np.random.default_rng(0)
    reached = 0
    for _ in range(5):
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "r"), str(tmp_path / "recipe.yaml")], stdout=subprocess.PIPE
        )
        assert child.stdout.readline() == b"ready\n"
        while not reached and len(list((tmp_path / "r").glob("checkpoints/step_*"))) < 2:  # a second one has begun: the first is whole
            time.sleep(0.01)
        time.sleep(chance.uniform(0.02, 0.25))
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
            step = run.start.step if run.start else 0
            assert step >= reached
            for group in run.start.groups if run.start else ():
                (array,) = run.start.arrays(group).values()
                assert (array == step).all() and array.size == 200_000
            assert [line["step"] for line in run.stats()] == list(range(1, step + 1))
            reached = step
    assert reached > 0
