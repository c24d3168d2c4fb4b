"""Whole runs, small: the run folder, resuming after real signals and damage, callbacks, and what is refused."""

import csv
import json
import os
import signal

import keras
import numpy as np
import pytest
from PIL import Image

import unetkit
from unetkit import recipe as recipes
from unetkit import runs
from unetkit.errors import UserError, WorkError


def tiny(**changes):
    """A recipe whose run takes a second: 20 steps of 8 images, 16 x 16, with dropout, EMA and augmentation."""
    base = {
        "name": "tiny",
        "data": {
            "source": "emoji",
            "size": 16,
            "input_channels": 1,
            "target_channels": 3,
            "split": {"validation": 0.01, "limit": 40},
            "augment": {"flip": "horizontal", "brightness": 0.1},
        },
        "model": {"levels": [4, 8], "groups": 2, "dropout": 0.2},
        "optimizer": {"name": "adam", "schedule": "cosine", "warmup_images": 32},
        "training": {"images": 160, "batch": 8, "steps_per_call": 3, "ema": 0.8},
        "checkpoint": {"every_images": 32},
        "logging": {"every_images": 24, "validate_every_images": 80, "samples": {"every_images": 80, "count": 2}},
    }
    for path, value in changes.items():
        *sections, last = path.split("__")
        place = base
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return recipes.read(base)


def fit(path, *, callbacks=(), **changes):
    return unetkit.fit(tiny(**changes), path, callbacks=callbacks, progress=False)


def final(path):
    """Every array of a run's latest checkpoint, and its log without what depends on the clock."""
    run = runs.read(path)
    checkpoint = run.latest()
    arrays = {f"{g}/{n}": a for g in checkpoint.groups for n, a in checkpoint.arrays(g).items()}
    log = [{k: v for k, v in line.items() if k not in ("images_per_second", "input_wait_share")} for line in run.stats()]
    return checkpoint.step, arrays, log


def assert_same_run(one, other):
    (step, arrays, log), (other_step, other_arrays, other_log) = final(one), final(other)
    assert step == other_step
    assert arrays.keys() == other_arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, other_arrays[name], err_msg=name)
    assert log == other_log


class Send(keras.callbacks.Callback):
    """Sends this process a real signal when step `at` has been logged."""

    def __init__(self, number, at):
        super().__init__()
        self.number, self.at = number, at

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 == self.at:
            os.kill(os.getpid(), self.number)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    path = tmp_path_factory.mktemp("fit") / "straight"
    result = fit(path)
    assert (result.status, result.exit_status, result.step, result.images) == ("done", 0, 20, 160)
    return path


def test_run_folder_holds_what_a_user_looks_for(straight):
    lines = [json.loads(line) for line in (straight / "stats.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == [3, 6, 9, 12, 15, 18, 20]
    assert [line["step"] for line in lines if "val_psnr" in line] == [10, 20]
    assert all(0 <= line["input_wait_share"] <= 1 for line in lines if "loss" in line)
    assert (straight / "DONE").exists()
    for picture in ("curves.png", "samples/images_000000160.png"):
        with Image.open(straight / picture) as image:
            assert min(image.size) > 40, picture
    model = keras.models.load_model(straight / "model.keras")
    average = runs.read(straight).latest().arrays("ema")
    for variable in model.trainable_variables:
        np.testing.assert_array_equal(variable.numpy(), average[variable.path])


def test_the_same_call_on_a_finished_run_does_nothing(straight, capsys):
    before = final(straight)
    result = fit(straight)
    assert (result.status, result.exit_status, result.step) == ("nothing to do", 0, 20)
    assert "Nothing to do" in capsys.readouterr().err
    assert final(straight)[2] == before[2]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_the_same_call_ends_as_if_never_stopped(straight, tmp_path, number, status):
    result = fit(tmp_path / "cut", callbacks=[Send(number, 9)])
    assert (result.status, result.exit_status, result.step) == ("stopped", status, 9)
    assert fit(tmp_path / "cut").status == "done"
    assert_same_run(straight, tmp_path / "cut")


@pytest.mark.parametrize("damage", ["half", "empty", "no meta"])
def test_a_damaged_newest_checkpoint_falls_back_and_still_ends_the_same(straight, tmp_path, damage, capsys):
    fit(tmp_path / "cut", callbacks=[Send(signal.SIGTERM, 9)])
    newest = runs.read(tmp_path / "cut").latest().path
    victim = newest / ("meta.json" if damage == "no meta" else "weights.npz")
    if damage == "no meta":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[: victim.stat().st_size // 2 if damage == "half" else 0])
    result = unetkit.fit(tiny(), tmp_path / "cut", progress=True)
    assert result.status == "done"
    said = capsys.readouterr().err
    assert newest.name in said and "step_00000008" in said
    assert_same_run(straight, tmp_path / "cut")


@pytest.mark.parametrize("changes", [{"checkpoint__every_images": 8}, {"training__steps_per_call": 1}, {"data__workers": 3}])
def test_how_often_one_saves_calls_or_reads_ahead_does_not_change_the_result(straight, tmp_path, changes):
    fit(tmp_path / "other", **changes)
    assert_same_run(straight, tmp_path / "other")


def test_a_longer_length_goes_on(straight, tmp_path):
    fit(tmp_path / "longer", training__images=80)
    result = fit(tmp_path / "longer", training__images=160)
    assert (result.status, result.step) == ("done", 20)
    assert final(tmp_path / "longer")[0] == final(straight)[0]


def test_another_learning_rate_on_resume_is_refused_with_the_difference(straight):
    with pytest.raises(UserError, match=r"(?s)optimizer.learning_rate: 0.001 -> 0.5.*--init-from"):
        fit(straight, optimizer__learning_rate=0.5)


@pytest.mark.parametrize("source", ["run", "model.keras", "checkpoint"])
def test_init_from_starts_from_the_averaged_weights(straight, tmp_path, source):
    where = {"run": straight, "model.keras": straight / "model.keras", "checkpoint": runs.read(straight).latest().path / "ema.npz"}[source]
    recipe = tiny(optimizer={"name": "sgd", "learning_rate": 1e-12}, training__images=8)
    if source == "checkpoint":  # holds the averaged weights alone; here that is all of them
        assert runs.read(straight).latest().arrays("ema").keys() == runs.read(straight).latest().arrays("weights").keys()
    unetkit.fit(recipe, tmp_path / "new", init_from=where, progress=False)
    average = runs.read(straight).latest().arrays("ema")
    for name, value in runs.read(tmp_path / "new").latest().arrays("weights").items():
        np.testing.assert_allclose(value, average[name], atol=1e-6, err_msg=name)


def test_init_from_a_network_of_another_shape_names_the_weights(straight, tmp_path):
    with pytest.raises(UserError, match="down_0/block0/conv1/kernel"):
        unetkit.fit(tiny(model__levels=[6, 8]), tmp_path / "new", init_from=straight, progress=False)
    assert not (tmp_path / "new").exists()


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    class Poison(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch + 1 == 9:
                self.model.trainable_variables[0].assign(np.full(self.model.trainable_variables[0].shape, np.nan))

    with pytest.raises(WorkError, match="loss is nan at step 10"):
        fit(tmp_path / "run", callbacks=[Poison()])
    run = runs.read(tmp_path / "run")
    assert run.latest().step == 8
    assert all(np.isfinite(a).all() for a in run.latest().arrays("weights").values())
    assert not (tmp_path / "run" / "DONE").exists()


def test_an_output_that_is_not_finite_at_a_validation_is_told_with_the_remedy(tmp_path):
    class Poison(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch + 1 == 9:
                self.model.trainable_variables[0].assign(np.full(self.model.trainable_variables[0].shape, np.nan))

    with pytest.raises(WorkError, match=r"output is not finite after step 9.*lower optimizer.learning_rate"):
        fit(tmp_path / "run", callbacks=[Poison()], logging__validate_every_images=72, training__ema=None)
    latest = runs.read(tmp_path / "run").latest()
    assert latest.step == 8
    assert set(latest.groups) == {"weights", "optimizer"}  # no average was asked for


def test_callbacks_see_intervals_and_can_stop_the_run(tmp_path):
    seen = []

    class Watch(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            seen.append(("begin", self.model.optimizer is not None))

        def on_train_batch_end(self, batch, logs=None):
            seen.append(("batch", batch, sorted(logs)))

        def on_epoch_end(self, epoch, logs=None):
            seen.append(("epoch", epoch, sorted(logs)))
            self.model.stop_training = True

        def on_train_end(self, logs=None):
            seen.append(("end",))

    result = fit(tmp_path / "run", callbacks=[Watch()], training__callbacks=[
        {"use": "keras.callbacks:CSVLogger", "args": {"filename": str(tmp_path / "log.csv")}}
    ])  # fmt: skip
    assert result.status == "done" and result.step == 10
    assert seen == [
        ("begin", True),
        ("batch", 2, ["loss"]),
        ("batch", 5, ["loss"]),
        ("batch", 8, ["loss"]),
        ("epoch", 0, ["val_l1", "val_psnr", "val_ssim"]),
        ("end",),
    ]
    with open(tmp_path / "log.csv") as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["0"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"training__batch": 64}, "64 is more than the 40 training images"),
        ({"optimizer__weight_decay": 0.1, "optimizer__no_decay": ["nothing/*"]}, "matches no weight"),
        ({"training__callbacks": ["no_such_module:Thing"]}, "training.callbacks"),
        ({"training__callbacks": ["json:dumps"]}, "not a keras.callbacks.Callback"),
        ({"hardware__device": "tpu"}, "(?s)no usable TPU.*/dev/accel"),
        ({"backend": "jax"}, "already loaded with tensorflow"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(tmp_path, changes, words):
    with pytest.raises(UserError, match=words):
        fit(tmp_path / "run", **changes)
    assert not (tmp_path / "run").exists()


def test_a_run_that_waits_for_input_says_how_much_and_what_to_do(tmp_path, monkeypatch, capsys):
    from unetkit.data import loader

    quick = loader.Batches.__next__

    def slow(self):
        self.wait_seconds += 3600.0  # said, not slept: no machine is too busy for it
        return quick(self)

    monkeypatch.setattr(loader.Batches, "__next__", slow)
    unetkit.fit(tiny(logging__every_images=160), tmp_path / "run", progress=True)
    shares = [line["input_wait_share"] for line in runs.read(tmp_path / "run").stats() if "loss" in line]
    assert shares[-1] == 1.0
    assert "waited for input" in capsys.readouterr().err
