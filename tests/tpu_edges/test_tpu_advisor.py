"""The one callback: `batch: auto` of a recipe, fixed batches that do not fit, and AutoBatch beside any Keras `fit`."""

import dataclasses
import json

import keras
import numpy as np
import pytest

import unetkit
from unetkit.callbacks import AutoBatch, RecipeAdvisor, TPUAdvisor, auto_batch, memory_viewer
from unetkit.errors import LimitError, UserError
from unetkit.recipe import read, schema
from unetkit.tpu import inspection, local, tuning
from unetkit.tpu.answer import Answer, Hbm, Step
from unetkit.tpu.chips import chip

LIMIT = 1000


class Compiler:
    """Needs `per_image` of 1000 bytes for each image of a replica, 8 at least; faster per image up to 16."""

    def __init__(self, per_image=40):
        self.per_image, self.asked = per_image, []

    def answer(self, name, where, batch, accumulate, stage):
        where = chip(where)
        rows = batch // where.replicas // accumulate
        self.asked.append((batch, accumulate, stage))
        need = self.per_image * rows
        answer = Answer(
            name=name,
            chip=where.name, chips=where.chips, cores=where.cores, replicas=where.replicas, global_batch=batch, per_core_batch=rows,
            accumulation=accumulate, source="compiled" if need <= LIMIT else "compiler_oom", fits=need <= LIMIT, program="jax",
            hbm=Hbm(limit_bytes=LIMIT, peak_bytes=need),
        )  # fmt: skip
        timed = stage == "full" and answer.fits
        return dataclasses.replace(answer, step=Step(estimated_ms=1.0, images_per_second=min(rows, 16) - rows / 100)) if timed else answer

    def recipe(self, recipe, where, batch, stage, label):
        answer = self.answer(recipe.name, where, batch, recipe.training.accumulate, stage)
        if recipe.model.packing == () or answer.step.images_per_second is None:
            return answer
        return dataclasses.replace(
            answer, packing="packed", step=Step(estimated_ms=1.0, images_per_second=100.0 * len(recipe.model.packing))
        )

    def keras(self, model, *, chip, batch, stage, **known):
        return self.answer(model.name, chip, batch, 1, stage)


@pytest.fixture
def compiler(monkeypatch):
    asked = Compiler()
    monkeypatch.delenv("TPU_ACCELERATOR_TYPE", raising=False)
    monkeypatch.setattr(tuning, "ask_inspection", asked.recipe)
    monkeypatch.setattr(tuning, "compiler_here", lambda: True)
    monkeypatch.setattr(auto_batch, "compiler_here", lambda: True)
    monkeypatch.setattr(inspection, "inspect", asked.keras)
    monkeypatch.setattr(memory_viewer, "find_interpreter", lambda: None)
    viewed = memory_viewer._Question

    def look(question, show):
        accumulate = question.recipe.training.accumulate if question.recipe else 1
        return asked.answer(question.name, question.where.name, question.batch, accumulate, "viewed")

    monkeypatch.setattr(viewed, "_compiler", look)
    return asked


def recipe(tpu=None, hardware=None, **training):
    return {
        "name": "advised",
        "data": {"source": "emoji", "size": 16, "split": {"limit": 300, "validation": 0.005}},
        "model": {"preset": "unet", "levels": [4, 8], "norm": "none"},
        "training": {"images": 256, "batch": "auto", **training},
        "tpu": {"chip": "v2-8"} if tpu is None else tpu,
        "hardware": hardware or {},
    }


def test_auto_is_settled_before_the_training_and_kept_on_resume(compiler, tmp_path, capsys):
    result = unetkit.fit(recipe(), tmp_path / "run")
    assert (result.status, result.step) == ("done", 2)
    resolved = read(tmp_path / "run" / "recipe.yaml")
    assert resolved.training.batch == 128
    said = json.loads((tmp_path / "run" / "analysis.json").read_text())
    assert said["tune"]["choice"]["global_batch"] == 128 and said["tune"]["reasons"] and len(said["tune"]["candidates"]) >= 2
    assert said["inspect"]["global_batch"] == 128
    assert "training.batch: 128, chosen for a v2-8" in capsys.readouterr().err
    before = len([a for a in compiler.asked if a[2] != "viewed"])
    again = unetkit.fit(recipe(images=512), tmp_path / "run", progress=False)
    assert again.step == 4 and len([a for a in compiler.asked if a[2] != "viewed"]) == before
    assert read(tmp_path / "run" / "recipe.yaml").training.batch == 128
    assert json.loads((tmp_path / "run" / "analysis.json").read_text())["tune"] == said["tune"]


def test_a_packing_that_was_tuned_is_trained_and_kept_on_resume(compiler, tmp_path):
    tuned = recipe(tpu={"chip": "v2-8", "tune": {"lowering": True}})
    unetkit.fit(tuned, tmp_path / "run", progress=False)
    first = read(tmp_path / "run" / "recipe.yaml")
    assert (first.training.batch, first.model.lowering, first.model.packing) == (128, "packed", ((2, 4), (2, 4)))
    asked = len([a for a in compiler.asked if a[2] != "viewed"])
    unetkit.fit(tuned | {"training": {"images": 512, "batch": "auto"}}, tmp_path / "run", progress=False)
    assert read(tmp_path / "run" / "recipe.yaml").model == first.model
    assert len([a for a in compiler.asked if a[2] != "viewed"]) == asked


def test_auto_takes_no_more_images_than_there_are(compiler, tmp_path):
    few = recipe()
    few["data"]["split"]["limit"] = 100
    assert RecipeAdvisor(read(few), tmp_path).prepare(read(few), 100, "cpu", 1).training.batch == 64
    few["data"]["split"]["limit"] = 63
    with pytest.raises(UserError, match="there are 63 training images"):
        unetkit.fit(few, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_auto_that_fits_nowhere_says_what_would_and_leaves_nothing(compiler, tmp_path):
    compiler.per_image = 200
    with pytest.raises(LimitError, match=r"nothing was found[^$]*training.batch: 32, 4 per replica[^$]*fits") as refused:
        unetkit.fit(recipe(), tmp_path / "run", progress=False)
    assert refused.value.status == 3 and not (tmp_path / "run").exists()


def test_a_fixed_batch_stays_and_is_accumulated_where_it_does_not_fit(compiler, tmp_path, capsys):
    unetkit.fit(recipe(batch=256), tmp_path / "run")
    training = read(tmp_path / "run" / "recipe.yaml").training
    assert (training.batch, training.accumulate) == (256, 2)
    assert [a for a in compiler.asked if a[2] == "memory"] == [(256, 1, "memory"), (256, 2, "memory")]
    assert "training.accumulate: 2, since 256 images at once need" in capsys.readouterr().err
    asked = len(compiler.asked)
    unetkit.fit(recipe(batch=256, images=512), tmp_path / "run", progress=False)
    assert read(tmp_path / "run" / "recipe.yaml").training.accumulate == 2
    assert all(stage == "viewed" for _, _, stage in compiler.asked[asked:])


def test_a_fixed_batch_that_fits_is_left_alone(compiler, tmp_path):
    plain = read(recipe(batch=128))
    assert RecipeAdvisor(plain, tmp_path).prepare(plain, 300, "cpu", 1) == plain
    odd = read(recipe(batch=100))
    assert RecipeAdvisor(odd, tmp_path).prepare(odd, 300, "cpu", 1) == odd and compiler.asked == [(128, 1, "memory")]


def test_accumulated_micro_batches_train_as_one_batch(compiler, tmp_path):
    """Without batch norm: to 1e-6."""
    weights = []
    for accumulate in (1, 4):
        one = recipe(tpu={}, batch=32, images=96, accumulate=accumulate)
        run = tmp_path / str(accumulate)
        unetkit.fit(one | {"optimizer": {"name": "sgd", "learning_rate": 0.1}}, run, progress=False)
        weights.append(keras.saving.load_model(run / "model.keras").get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


def test_a_recipe_without_a_chip_is_not_asked_about(compiler, tmp_path):
    plain = read(recipe(tpu={}, batch=16))
    made = RecipeAdvisor(plain, tmp_path)
    assert made.prepare(plain, 300, "cpu", 1) == plain
    made.set_model(keras.Sequential())
    made.on_train_begin()
    assert not compiler.asked and made.answer is None


def test_limits_of_a_recipe_refuse_to_train(compiler, tmp_path):
    with pytest.raises(LimitError, match="of the usable HBM"):
        unetkit.fit(recipe(tpu={"chip": "v2-8", "max_hbm": 0.3}, batch=128), tmp_path / "run", progress=False)
    assert not (tmp_path / "run" / "DONE").exists()


@pytest.mark.parametrize("replicas", [1, 4])
def test_on_a_cpu_the_model_and_the_memory_decide(tmp_path, replicas, monkeypatch):
    monkeypatch.setattr(local.memory, "available", lambda: 8 * 10**9)
    plain = read(recipe(tpu={}))
    made = RecipeAdvisor(plain, tmp_path)
    batch = made.prepare(plain, 300, "cpu", replicas).training.batch
    assert batch % (8 * replicas) == 0 and batch <= 300 and any("arithmetic model" in note for note in made.notes)
    monkeypatch.setattr(local.memory, "available", lambda: 4 * 10**6 * replicas)
    assert made.prepare(plain, 300, "cpu", replicas).training.batch <= batch
    monkeypatch.setattr(local.memory, "available", lambda: 1000)
    with pytest.raises(LimitError, match="that are free"):
        made.prepare(plain, 300, "cpu", replicas)
    with pytest.raises(UserError, match="there are 7 training images"):
        made.prepare(plain, 7, "cpu", replicas)


def test_the_learning_rate_follows_the_batch_where_asked(compiler, tmp_path, capsys):
    scaled = recipe(lr_scaling="linear", lr_batch=32)
    unetkit.fit(scaled | {"optimizer": {"name": "sgd", "learning_rate": 0.01}}, tmp_path / "run")
    assert "learning rate 0.04: 0.01 scaled (linear) from batch 32 to 128" in capsys.readouterr().err
    lines = [json.loads(line) for line in (tmp_path / "run" / "stats.jsonl").read_text().splitlines()]
    assert [line["learning_rate"] for line in lines if "learning_rate" in line] == [pytest.approx(0.04)] * 2
    root = read(recipe(batch=128, lr_scaling="sqrt", lr_batch=32))
    assert unetkit.build.learning_rate(root) == pytest.approx(2 * root.optimizer.learning_rate)
    with pytest.raises(UserError, match="linear needs `lr_batch`"):
        read(recipe(lr_scaling="linear"))


def pairs(count):
    return np.zeros((count, 8, 8, 3), "float32"), np.zeros((count, 8, 8, 3), "float32")


def test_auto_batch_chooses_for_any_keras_model(compiler, network):
    auto = AutoBatch("v2-8")
    batch = auto.choose(network, images=1000)
    assert batch == 128 and auto.found.best.source == "compiled"
    network.fit(*pairs(256), batch_size=batch, verbose=0, callbacks=[auto])
    with pytest.raises(UserError, match="there are 20 images"):
        auto.choose(network, images=20)
    compiler.per_image = 1000
    with pytest.raises(LimitError, match="not even 64 images of tiny"):
        auto.choose(network)


def test_a_batch_that_is_padded_is_warned_about_with_both_neighbours(compiler, network):
    with pytest.warns(UserWarning, match=r"a batch of 100 is no multiple of 64 \(8 replicas x 8\).*Use 64 or 128"):
        network.fit(*pairs(100), batch_size=100, verbose=0, callbacks=[AutoBatch("v2-8")])


def test_the_advisor_is_both_halves(compiler, network, tmp_path):
    both = TPUAdvisor("v2-8", max_padding=2.0, batch="auto", folder=tmp_path)
    network.fit(*pairs(256), batch_size=both.choose(network), verbose=0, callbacks=[both])
    said = json.loads((tmp_path / "analysis.json").read_text())
    assert said["tune"]["choice"]["global_batch"] == said["inspect"]["global_batch"] == both.answer.global_batch == 128


def test_a_recipe_section_has_the_advisors_argument_names():
    assert {"chip", "max_padding", "max_hbm"} <= {f.name for f in dataclasses.fields(schema.Tpu)}
