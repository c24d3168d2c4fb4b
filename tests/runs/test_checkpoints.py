"""Which checkpoints are kept, which is used, and what happens to damaged ones."""

import errno
import json
import os
import re
import resource
import shutil

import ml_dtypes
import numpy as np
import pytest

from unetkit import runs
from unetkit.errors import UserError, WorkError
from unetkit.runs import checkpoints


@pytest.fixture
def run(tmp_path, recipe):
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        yield run


def save(run, arrays, step, **metrics):
    return run.save(step, step * 10, arrays(step), {"metrics": metrics})


def steps(run):
    return [checkpoints.step_of(folder) for folder in checkpoints.found(run.checkpoints_path)]


def test_the_marker_lists_every_file_and_its_size(run, arrays):
    folder = save(run, arrays, 5).path
    marker = json.loads((folder / "COMPLETE.json").read_text())
    assert marker["files"].keys() == {"weights.npz", "ema.npz", "optimizer.npz", "meta.json"}
    for name, told in marker["files"].items():
        assert told["bytes"] == (folder / name).stat().st_size
    assert sorted(os.listdir(folder)) == ["COMPLETE.json", "ema.npz", "meta.json", "optimizer.npz", "weights.npz"]


def test_saving_the_same_arrays_twice_writes_the_same_bytes(tmp_path, arrays):
    one, two = (checkpoints.write(tmp_path / name, 5, 50, arrays(5), {"note": "x"}).path for name in "ab")
    for file in sorted(one.iterdir()):
        assert file.read_bytes() == (two / file.name).read_bytes(), file.name


def test_the_newest_and_the_best_are_kept(run, arrays):
    for step, psnr in ((10, 9.0), (20, 12.0), (30, 11.0), (40, 11.5), (50, 10.0)):
        save(run, arrays, step, psnr=psnr)
    assert steps(run) == [20, 40, 50]
    assert run.best().step == 20 and run.best().metrics == {"psnr": 12.0} and run.latest().step == 50


def test_of_equals_the_earlier_is_best_and_it_survives_a_resume(run, arrays, recipe):
    save(run, arrays, 10, psnr=12.0)
    save(run, arrays, 20, psnr=12.0)
    run.close()
    with runs.RunFolder.open(run.path, recipe()) as again:
        save(again, arrays, 30, psnr=12.0)
        save(again, arrays, 40, psnr=float("nan"))
        assert again.best().step == 10 and steps(again) == [10, 30, 40]


def test_a_lower_l1_is_better(tmp_path, recipe, arrays):
    with runs.RunFolder.open(tmp_path / "l1", recipe({"checkpoint.metric": "l1"})) as run:
        for step, l1 in ((10, 0.3), (20, 0.1), (30, 0.2), (40, 0.2)):
            save(run, arrays, step, l1=l1, psnr=-l1 * step)
        assert run.best().step == 20 and run.best("psnr").step == 20 and steps(run) == [20, 30, 40]


def test_without_keep_best_only_the_newest_stay(tmp_path, recipe, arrays):
    with runs.RunFolder.open(tmp_path / "n", recipe({"checkpoint.keep_best": False, "checkpoint.keep_last": 3})) as run:
        for step in (10, 20, 30, 40):
            save(run, arrays, step, psnr=-step)
        assert steps(run) == [20, 30, 40]


def test_without_metrics_there_is_no_best(run, arrays):
    save(run, arrays, 10)
    assert run.best() is None


def test_saving_a_step_again_keeps_the_good_checkpoint(run, arrays):
    first = save(run, arrays, 10)
    before = (first.path / "weights.npz").stat().st_mtime_ns
    assert save(run, arrays, 10).path == first.path
    assert (first.path / "weights.npz").stat().st_mtime_ns == before


def halve(folder):
    for file in folder.glob("weights.npz"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip_a_bit(folder):
    content = bytearray((folder / "weights.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "weights.npz").write_bytes(content)


DAMAGES = {
    "halved": (halve, "weights.npz has .* bytes instead of"),
    "emptied": (lambda folder: (folder / "weights.npz").write_bytes(b""), "weights.npz has 0 bytes instead of"),
    "bit": (flip_a_bit, "weights.npz has changed since it was written"),
    "no meta": (lambda folder: (folder / "meta.json").unlink(), "meta.json is missing"),
    "no file": (lambda folder: (folder / "optimizer.npz").unlink(), "optimizer.npz is missing"),
    "no marker": (lambda folder: (folder / "COMPLETE.json").unlink(), "was not finished"),
    "empty marker": (lambda folder: (folder / "COMPLETE.json").write_bytes(b""), "COMPLETE.json or meta.json cannot be read"),
    "other marker": (lambda folder: (folder / "COMPLETE.json").write_text("[]"), "COMPLETE.json or meta.json cannot be read"),
    "null in marker": (lambda folder: (folder / "COMPLETE.json").write_text('{"files": null}'), "cannot be read"),
    "file is folder": (lambda folder: ((folder / "ema.npz").unlink(), (folder / "ema.npz").mkdir()), "ema.npz has|cannot be read"),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_newest_falls_back_and_names_both(run, arrays, recipe, kind):
    spoil, reason = DAMAGES[kind]
    save(run, arrays, 10)
    newest = save(run, arrays, 20).path
    spoil(newest)
    run.close()
    with runs.RunFolder.open(run.path, recipe()) as again:
        assert again.start.step == 10
        assert len(again.messages) == 1
        assert "step_00000020" in again.messages[0] and "using step_00000010 instead" in again.messages[0]
        assert re.search(reason, again.messages[0])
        # Going on from there writes the spoilt step anew.
        save(again, arrays, 20)
        assert again.latest().step == 20 and again.latest().arrays("weights")["head/bias"][0] == 20


def test_a_stray_temporary_file_is_no_checkpoint(run, arrays, recipe):
    save(run, arrays, 10)
    (run.checkpoints_path / "step_00000020").mkdir()
    (run.checkpoints_path / "step_00000020" / ".partial.weights.npz").write_bytes(b"half")
    (run.checkpoints_path / "notes.txt").write_text("mine")
    (run.checkpoints_path / "step_best").mkdir()
    run.close()
    with runs.RunFolder.open(run.path, recipe()) as again:
        assert again.start.step == 10
        save(again, arrays, 15)
        assert sorted(os.listdir(run.checkpoints_path)) == ["notes.txt", "step_00000010", "step_00000015", "step_best"]


def test_when_every_checkpoint_is_damaged_nothing_is_overwritten(run, arrays, recipe):
    halve(save(run, arrays, 10).path)
    halve(save(run, arrays, 20).path)
    run.close()
    before = {file: file.read_bytes() for file in run.checkpoints_path.rglob("*.*") if file.is_file()}
    with pytest.raises(WorkError, match=r"(?s)no checkpoint .* can be used.*_00000020 weights\.npz has.*_00000010 weights\.npz has"):
        runs.RunFolder.open(run.path, recipe())
    assert {file: file.read_bytes() for file in run.checkpoints_path.rglob("*.*") if file.is_file()} == before


def test_killed_in_the_first_save_the_run_starts_from_the_beginning(run, arrays, recipe):
    (save(run, arrays, 10).path / "COMPLETE.json").unlink()
    run.close()
    with runs.RunFolder.open(run.path, recipe()) as again:
        assert again.status == "new" and again.start is None
        assert again.messages == ["checkpoint step_00000010 was not finished: nothing to resume from"]


def test_a_damaged_best_gives_way_to_the_next_best(run, arrays):
    for step, psnr in ((10, 12.0), (20, 10.0), (30, 11.0)):
        save(run, arrays, step, psnr=psnr)
    halve(run.checkpoints_path / "step_00000010")
    assert run.best().step == 30
    assert "the best checkpoint, step_00000010, weights.npz has" in run.messages[0]
    (run.checkpoints_path / "step_00000030" / "meta.json").write_text("{")
    assert run.best().step == 20


def fill_disk_at(monkeypatch, file_name):
    """Makes every write of `file_name` fail as a full disk does, half of it written."""
    real = checkpoints.files.replacing

    def replacing(path):
        if path.name == file_name:
            checkpoints.files.partial_name(path).write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path)

    monkeypatch.setattr(checkpoints.files, "replacing", replacing)


@pytest.mark.parametrize("file_name", ["weights.npz", "optimizer.npz", "meta.json", "COMPLETE.json"])
def test_a_full_disk_loses_nothing_and_says_what_is_needed(run, arrays, monkeypatch, file_name):
    save(run, arrays, 10)
    save(run, arrays, 20)
    with monkeypatch.context() as patch:
        fill_disk_at(patch, file_name)
        with pytest.raises(WorkError, match=r"save step 30: No space left.*needs 0\.0 MB.*are free.*step_00000020 is still there"):
            save(run, arrays, 30)
    assert steps(run) == [10, 20] and run.latest().arrays("weights")["head/bias"][0] == 20
    assert save(run, arrays, 30).step == 30


def test_a_write_that_the_system_refuses_half_way(run):
    """A limit on the size of a file makes the operating system itself stop the write, as it does on a full disk."""
    big = {"weights": {"kernel": np.ones((64, 1024), np.float32)}}
    run.save(1, 10, big, {})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(WorkError, match=r"could not save step 2: File too large.*needs 0\.3 MB.*step_00000001 is still there"):
            run.save(2, 20, big, {})
        with pytest.raises(WorkError, match=r"cannot write .*stats\.jsonl: File too large"):
            run.log.write({"step": 2, "text": "x" * 200_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert steps(run) == [1]
    run.log.write({"step": 2})
    assert run.stats() == [{"step": 2}]


def test_an_array_the_format_would_change_is_refused(tmp_path):
    for array in (np.zeros(2, ml_dtypes.bfloat16), np.array([{}], object)):
        with pytest.raises(ValueError, match=r"weights: head/bias has dtype .* convert it to float32"):
            checkpoints.write(tmp_path, 1, 1, {"weights": {"head/bias": array}}, {})


def test_an_unknown_group_names_the_known_ones(run, arrays):
    with pytest.raises(UserError, match="holds no 'emma'; it holds ema, optimizer, weights"):
        save(run, arrays, 10).arrays("emma")


def test_a_checkpoint_removed_while_it_is_read_says_to_try_again(run, arrays, monkeypatch):
    checkpoint = save(run, arrays, 10)
    assert checkpoint.groups
    monkeypatch.setattr(type(checkpoint), "groups", ("weights",))
    shutil.rmtree(checkpoint.path)
    with pytest.raises(WorkError, match="being trained right now"):
        checkpoint.arrays("weights")
