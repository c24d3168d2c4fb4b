"""Making, resuming, finishing and reading a run folder."""

import copy
import json
import os
import shutil

import numpy as np
import pytest
import yaml

from unetkit import recipe as recipes
from unetkit import runs
from unetkit.errors import UserError
from unetkit.runs import changes


def train(run, arrays, steps, metrics=None):
    """Writes a line for each step and saves the last one, as a training loop does."""
    first = run.start.step if run.start else 0
    for step in range(first + 1, steps + 1):
        run.log.write({"step": step, "loss": 1.0 / step})
    return run.save(steps, steps * 10, arrays(steps), {"metrics": metrics or {}})


def test_a_new_folder_holds_the_recipe_and_its_history(tmp_path, recipe):
    with runs.RunFolder.open(tmp_path / "runs" / "tiny", recipe()) as run:
        assert run.status == "new" and run.start is None and run.messages == []
        run.note_environment(device="cpu", backend="tensorflow")
    assert run.recipe_text == recipe()
    environment = json.loads((run.path / "environment.json").read_text())
    assert environment["device"] == "cpu" and environment["numpy"] == np.__version__ and environment["python"]
    assert [line["event"] for line in runs.read_stats(run.path / "history.jsonl")] == ["created"]


def test_the_same_command_resumes_with_the_same_arrays(tmp_path, recipe, arrays):
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        train(run, arrays, 7)
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        assert run.status == "resume" and (run.start.step, run.start.images) == (7, 70)
        assert run.start.groups == ("ema", "optimizer", "weights")
        for group, expected in arrays(7).items():
            got = run.start.arrays(group)
            assert got.keys() == expected.keys()
            for name, array in expected.items():
                np.testing.assert_array_equal(got[name], array)
                assert got[name].dtype == array.dtype and got[name].shape == array.shape


def test_a_finished_run_is_done_and_stays_as_it_is(tmp_path, recipe, arrays):
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        train(run, arrays, 40)
        run.finish({"step": 40, "images": 400, "psnr": 13.5})
    before = {file: file.read_bytes() for file in run.path.rglob("*") if file.is_file() and file.name != ".lock"}
    with runs.RunFolder.open(tmp_path / "r", recipe({"logging.every_images": 20})) as run:
        assert run.status == "done" and run.done["psnr"] == 13.5
    assert {file: file.read_bytes() for file in run.path.rglob("*") if file.is_file() and file.name != ".lock"} == before


def test_a_longer_length_resumes_a_finished_run_and_is_logged(tmp_path, recipe, arrays):
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        train(run, arrays, 40)
        run.finish({"step": 40, "images": 400})
    with runs.RunFolder.open(tmp_path / "r", recipe({"training.images": 800})) as run:
        assert run.status == "resume" and run.done is None
        assert run.messages == ["changed since the last start: training.images: 400 -> 800"]
    assert yaml.safe_load(run.recipe_text)["training"]["images"] == 800
    assert runs.read_stats(run.path / "history.jsonl")[-1]["recipe"] == {"training.images": [400, 800]}


@pytest.mark.parametrize(("change", "length"), [({"training.images": 390}, None), ({"training.images": None, "training.epochs": 3.0}, 390)])
def test_a_length_shorter_than_what_is_trained_is_refused(tmp_path, recipe, arrays, change, length):
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        train(run, arrays, 40)
    with pytest.raises(UserError, match="trained on 400 images, more than the 390 asked for"):
        runs.RunFolder.open(tmp_path / "r", recipe(change), images=length)
    # 395 images at a batch of 10 are 40 steps: exactly what there is.
    with runs.RunFolder.open(tmp_path / "r", recipe({"training.images": 395})) as run:
        assert run.status == "resume"


def test_a_length_that_is_no_multiple_of_the_batch_is_not_taken_for_shorter(tmp_path, recipe, arrays):
    text = recipe({"training.images": 395})
    with runs.RunFolder.open(tmp_path / "r", text) as run:
        train(run, arrays, 40)
        run.finish({"step": 40, "images": 400})
    with runs.RunFolder.open(tmp_path / "r", text) as run:
        assert run.status == "done"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", 1),
        ("data.size", 32),
        ("data.source.reverse", True),
        ("model.levels", [{"channels": 8}, {"channels": 32}]),
        ("optimizer.learning_rate", 0.002),
        ("training.batch", 20),
        ("training.precision", "mixed_bfloat16"),
        ("training.ema", None),
    ],
)
def test_what_changes_the_result_is_refused_with_the_difference(tmp_path, recipe, arrays, key, value):
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        train(run, arrays, 3)
    (tmp_path / "r-2").mkdir()
    with pytest.raises(UserError) as error:
        runs.RunFolder.open(tmp_path / "r", recipe({key: value}))
    assert f"  {key}: " in str(error.value) and f"-> {value!r}" in str(error.value)
    assert f"--run {tmp_path / 'r-3'} --init-from {tmp_path / 'r'}" in str(error.value)
    assert run.recipe_text == recipe(), "a refused recipe must not replace the run's"
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        assert run.status == "resume"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("backend", "jax"),
        ("hardware.device", "cpu"),
        ("logging.every_images", 5),
        ("checkpoint.keep_last", 3),
        ("model.lowering", "packed"),
        ("data.workers", 4),
        ("training.accumulate", 2),
        ("training.steps_per_call", 1),
        ("training.callbacks", [{"use": "my.callbacks:Mine"}]),
    ],
)
def test_what_does_not_change_the_result_may_change(tmp_path, recipe, arrays, key, value):
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        train(run, arrays, 3)
    with runs.RunFolder.open(tmp_path / "r", recipe({key: value})) as run:
        assert run.status == "resume" and [change.key for change in run.changes] == [key]


def test_a_key_that_an_older_version_did_not_have_counts_with_its_default(tmp_path, arrays):
    whole = recipes.to_dict(recipes.read({"name": "old", "data": {"source": "emoji"}, "training": {"images": 100}}))
    old = copy.deepcopy(whole)
    del old["optimizer"]["clip_norm"], old["hardware"]
    with runs.RunFolder.open(tmp_path / "r", yaml.safe_dump(old)) as run:
        train(run, arrays, 3)
    with runs.RunFolder.open(tmp_path / "r", yaml.safe_dump(whole)) as run:
        assert run.status == "resume" and run.changes == []
    (run.path / "recipe.yaml").write_text(yaml.safe_dump(old))
    whole["optimizer"]["clip_norm"] = 1.0
    with pytest.raises(UserError, match=r"optimizer\.clip_norm: None -> 1\.0"):
        runs.RunFolder.open(tmp_path / "r", yaml.safe_dump(whole))


def test_every_free_key_is_a_key_of_the_recipe():
    whole = recipes.to_dict(recipes.read({"name": "x", "data": {"source": "emoji"}, "training": {"images": 100}}))
    names = {name for name, _ in changes.flat("", whole)}
    for free in changes.FREE_KEYS:
        assert any(name == free or name.startswith(f"{free}.") for name in names), free


def test_before_the_first_checkpoint_any_recipe_is_welcome(tmp_path, recipe):
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        run.log.write({"step": 0, "loss": 3.0})
    with runs.RunFolder.open(tmp_path / "r", recipe({"seed": 5})) as run:
        assert run.status == "new" and run.stats() == []
    assert yaml.safe_load(run.recipe_text)["seed"] == 5


def test_a_change_of_environment_is_told_and_remembered(tmp_path, recipe, arrays):
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        run.note_environment(device="tpu v2-8")
        train(run, arrays, 3)
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        run.note_environment(device="cpu")
        assert run.messages == ["since the last start device changed: tpu v2-8 -> cpu"]
    line = runs.read_stats(run.path / "history.jsonl")[-1]
    assert line["event"] == "environment" and line["step"] == 3 and line["environment"] == {"device": ["tpu v2-8", "cpu"]}


def test_a_folder_with_other_things_is_refused_and_left_alone(tmp_path, recipe, monkeypatch):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.png").write_bytes(b"x")
    (tmp_path / "photos" / "recipe.yaml").write_text("eggs: 2")
    with pytest.raises(UserError, match=r"not a run folder and holds other things \(cat\.png, recipe\.yaml\).*photos-2"):
        runs.RunFolder.open(tmp_path / "photos", recipe())
    assert sorted(os.listdir(tmp_path / "photos")) == ["cat.png", "recipe.yaml"]
    with pytest.raises(UserError, match=r"cat\.png is a file"):
        runs.RunFolder.open(tmp_path / "photos" / "cat.png", recipe())
    monkeypatch.chdir(tmp_path / "photos")
    with pytest.raises(UserError, match=r"\. is not a run folder.*--run run-2"):
        runs.RunFolder.open(".", recipe())


def test_an_empty_folder_and_one_killed_at_birth_are_new(tmp_path, recipe):
    (tmp_path / "empty").mkdir()
    with runs.RunFolder.open(tmp_path / "empty", recipe()) as run:
        run.samples_path.rmdir()
        (run.path / "recipe.yaml").rename(run.path / ".partial.recipe.yaml")
    with runs.RunFolder.open(tmp_path / "empty", recipe()) as run:
        assert run.status == "new"
    assert not (tmp_path / "empty" / ".partial.recipe.yaml").exists()


def test_a_run_folder_without_its_recipe_says_so(tmp_path, recipe, arrays):
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        train(run, arrays, 3)
    (run.path / "recipe.yaml").unlink()
    with pytest.raises(UserError, match=r"a run folder without its recipe\.yaml"):
        runs.RunFolder.open(tmp_path / "r", recipe())
    (run.path / "recipe.yaml").write_text("")
    with pytest.raises(UserError, match=r"recipe\.yaml is damaged"):
        runs.RunFolder.open(tmp_path / "r", recipe())


def test_a_moved_folder_resumes_and_holds_no_absolute_path(tmp_path, recipe, arrays):
    with runs.RunFolder.open(tmp_path / "here" / "r", recipe()) as run:
        run.note_environment(device="cpu")
        train(run, arrays, 3, {"psnr": 10.0})
        train(run, arrays, 6, {"psnr": 9.0})
    shutil.move(tmp_path / "here", tmp_path / "there")
    for file in (tmp_path / "there").rglob("*"):
        assert file.is_dir() or str(tmp_path).encode() not in file.read_bytes(), file
    with runs.RunFolder.open(tmp_path / "there" / "r", recipe()) as run:
        assert run.start.step == 6 and run.best().step == 3


def test_reading_tells_that_a_run_has_not_finished(tmp_path, recipe, arrays):
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        assert runs.read(run.path).messages == [f"{run.path} has not finished; it has no checkpoint yet"]
        train(run, arrays, 3)
        assert runs.read(run.path).messages == [f"{run.path} has not finished; its newest checkpoint is step_00000003"]
        run.finish({"step": 3, "images": 30})
    assert runs.read(run.path).messages == []
    assert runs.read(run.path).latest().step == 3


def test_reading_what_is_not_a_run_names_the_nearest(tmp_path, recipe, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"no run folder emoji\. No run folder was found near it"):
        runs.read("emoji")
    for name in ("emoji", "emoji-2", "faces"):
        runs.RunFolder.open(f"runs/{name}", recipe()).close()
    with pytest.raises(UserError, match=r"no run folder runs/emojy\. Did you mean runs/emoji or runs/emoji-2\?"):
        runs.read("runs/emojy")
    with pytest.raises(UserError, match=r"no run folder faces\. Did you mean runs/faces\?"):
        runs.read("faces")
    with pytest.raises(UserError, match=r"runs is a folder, but not of a run.*near it: runs/emoji, runs/emoji-2, runs/faces"):
        runs.read("runs")
    (tmp_path / "faces.yaml").write_text("name: faces")
    with pytest.raises(UserError, match=r"faces\.yaml is a file; expected the folder of a run, as runs/NAME\. Did you mean runs/faces\?"):
        runs.read("faces.yaml")
    with pytest.raises(UserError, match=r"a part of the run folder runs/faces: name that"):
        runs.read("runs/faces/recipe.yaml")


def test_finishing_without_its_step_is_an_error(tmp_path, recipe):
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run, pytest.raises(ValueError, match="needs step and images"):
        run.finish({"psnr": 3.0})
