"""`tune_recipe` and `unetkit tune`, with a compiler whose curves are known."""

import dataclasses
import json
from pathlib import Path

import pytest

from unetkit.cli import main
from unetkit.errors import UserError
from unetkit.recipe import read
from unetkit.tpu import tuning
from unetkit.tpu.answer import Answer, Hbm, Padding, Step
from unetkit.tpu.chips import chip

LIMIT = 1000


class Compiler:
    """Needs `per_image` of 1000 bytes for each image of a replica, half of it in 16 bits or rematerialised; speeds by axis."""

    def __init__(self, per_image=40.0, patience=None, packed=1.2):
        self.per_image, self.asked, self.patience, self.packed = per_image, [], patience, packed
        self.plans = []

    def __call__(self, recipe, name, batch, stage, label):
        where, training = chip(name), recipe.training
        rows = batch // (where.replicas * training.accumulate)
        packing = " ".join("x".join(map(str, block)) for block in recipe.model.packing) or "none"
        self.asked.append((name, batch, stage, training.precision, training.remat, training.accumulate))
        self.plans.append((rows, packing))
        if self.patience is not None and sum(stage == "full" for _, _, stage, *_ in self.asked) > self.patience:
            raise KeyboardInterrupt
        side = recipe.data.size / 16
        need = self.per_image * max(rows, 2) * side**2
        need *= (0.5 if training.precision == "mixed_bfloat16" else 1.0) * (0.5 if training.remat == "blocks" else 1.0)
        answer = Answer(
            name=recipe.name, chip=name, chips=where.chips, cores=where.cores, replicas=where.replicas,
            global_batch=batch, per_core_batch=rows,
            accumulation=training.accumulate, precision=training.precision, remat=training.remat, packing=packing,
            program="jax",
            source="compiled" if need <= LIMIT else "compiler_oom", fits=need <= LIMIT,
            hbm=Hbm(limit_bytes=LIMIT, peak_bytes=round(need)), padding=Padding(ratio=1.5),
        )  # fmt: skip
        if stage == "memory" or need > LIMIT:
            return answer
        speed = 100.0 * where.replicas * rows / (rows + 8) * (1.5 if training.precision == "mixed_bfloat16" else 1.0)
        speed *= {1: 1.0, 2: 1.05, 4: 1.06}[training.accumulate] * (0.9 if training.remat == "blocks" else 1.0)
        speed *= self.packed if packing == "2x4" and rows == 8 else 1.0 if packing == "none" else 0.9
        return dataclasses.replace(answer, step=Step(estimated_ms=1e3 * batch / speed, images_per_second=speed))


def recipe(**training):
    tune, model = training.pop("tune", {}), training.pop("model", {})
    return read(
        {
            "name": "tiny",
            "data": {"source": "emoji", "size": 16},
            "model": {"preset": "unet", "levels": [4, 8], "norm": "none", **model},
            "training": {"images": 3_600_000, "batch": "auto", **training},
            "tpu": {"chip": "v2-8", "tune": tune},
        }
    )


def test_the_fastest_multiple_of_replicas_x_8_is_chosen_and_compiled():
    compiler = Compiler()
    found = tuning.tune_recipe(recipe(), ask=compiler)
    assert found.choice.global_batch == 128 and found.choice.source == "compiled"
    assert found.recipe.training.batch == 128 and found.recipe.tpu.chip == "v2-8"
    assert found.compiles <= 3 and all(batch % 64 == 0 for _, batch, *_ in compiler.asked)
    assert {answer.precision for answer in found.candidates} == {"float32"}
    assert any("128 makes the most" in reason for reason in found.reasons)


def test_accumulation_of_the_recipe_multiplies_the_batch():
    found = tuning.tune_recipe(recipe(accumulate=4), ask=Compiler())
    assert (found.choice.global_batch, found.choice.per_core_batch, found.choice.accumulation) == (512, 16, 4)


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [
        ({"precision": True}, ("mixed_bfloat16", "none", 1)),
        ({"remat": True}, ("float32", "blocks", 1)),
        ({"precision": True, "accumulate": True}, ("mixed_bfloat16", "none", 4)),
    ],
)
def test_further_axes_are_tried_where_the_recipe_allows_them(allowed, expected):
    found = tuning.tune_recipe(recipe(tune=allowed), ask=Compiler())
    training = found.recipe.training
    assert (training.precision, training.remat, training.accumulate) == expected
    assert training.batch == found.choice.global_batch == 8 * found.choice.per_core_batch * training.accumulate
    assert tuning.tune_recipe(recipe(), ask=Compiler()).choice.step.images_per_second < found.choice.step.images_per_second


def test_packings_are_tried_for_the_two_fastest_batches_once_the_batch_is_fixed():
    compiler = Compiler(packed=2.0)
    found = tuning.tune_recipe(recipe(tune={"lowering": True}), ask=compiler)
    packed = [plan for plan in compiler.plans if plan[1] != "none"]
    assert packed == [(16, "2x4 2x4"), (16, "2x4"), (8, "2x4 2x4"), (8, "2x4")]
    assert compiler.plans[-len(packed) :] == packed  # after the batch
    assert (found.choice.global_batch, found.choice.packing) == (64, "2x4")  # the second batch, packed, beats the first
    assert (found.recipe.model.lowering, found.recipe.model.packing) == ("packed", ((2, 4),))
    assert found.compiles == sum(stage == "full" for _, _, stage, *_ in compiler.asked)
    assert any(reason.startswith("packing 2x4 makes ") for reason in found.reasons)


def test_where_no_packing_is_faster_the_network_stays_plain():
    found = tuning.tune_recipe(recipe(tune={"lowering": True}, model={"lowering": "auto"}), ask=Compiler(packed=1.0))
    assert (found.choice.global_batch, found.choice.packing, found.recipe.model.lowering) == (128, "none", "plain")
    assert "of 4 other packings tried none is faster" in found.reasons


def test_lowering_auto_is_left_to_the_training_where_it_was_not_searched():
    assert tuning.tune_recipe(recipe(model={"lowering": "auto"}), ask=Compiler()).recipe.model.lowering == "auto"
    compiler = Compiler(packed=1.0, patience=3)  # Ctrl-C among the packings
    found = tuning.tune_recipe(recipe(tune={"lowering": True}, model={"lowering": "auto"}), ask=compiler)
    assert (found.ended, found.choice.global_batch, found.recipe.model.lowering) == ("interrupted", 128, "auto")


def test_where_the_time_is_over_before_anything_was_asked_it_says_so():
    compiler = Compiler()
    found = tuning.tune_recipe(recipe(), minutes=0.0, ask=compiler)
    assert found.choice is None and not compiler.asked and found.ended == "out of time" and not found.remedies
    assert found.reasons[-1] == "the time that was given is over: nothing was asked, so nothing is known"


def test_ctrl_c_among_the_remedies_keeps_those_that_are_known():
    compiler = Compiler(per_image=200.0)
    asked = compiler.__call__

    def interrupted(recipe, *question):
        if recipe.training.remat == "blocks":
            raise KeyboardInterrupt
        return asked(recipe, *question)

    found = tuning.tune_recipe(recipe(), ask=interrupted)
    assert found.ended == "interrupted" and [remedy.text for remedy in found.remedies] == ["training.precision: mixed_bfloat16"]
    assert found.reasons[-1] == "nothing was found that fits into 95% of the HBM"


def test_where_nothing_fits_what_would_is_tried():
    compiler = Compiler(per_image=200.0)
    found = tuning.tune_recipe(recipe(), ask=compiler)
    assert found.choice is None and found.recipe is None and found.compiles == 0
    verdicts = {remedy.text: remedy.answer.fits for remedy in found.remedies}
    assert verdicts["training.precision: mixed_bfloat16"] is True and verdicts["training.remat: blocks"] is True
    assert verdicts["training.accumulate: 2, the batch of 64 in micro-batches of 4 per replica"] is True
    assert verdicts["data.size: 8"] is True and sum(text.startswith("training.batch: ") for text in verdicts) == 3
    assert all(stage == "memory" for _, _, stage, *_ in compiler.asked)


def test_fewer_images_than_one_batch_is_an_error_before_anything_is_asked():
    compiler = Compiler()
    with pytest.raises(UserError, match=r"multiples of 64 \(8 replicas of a v2-8 x 8 images\).*there are 63"):
        tuning.tune_recipe(recipe(), images=63, ask=compiler)
    with pytest.raises(UserError, match=r"^a tuned batch is one of the multiples of 64 .*there are 63"):
        tuning.tune_recipe(recipe(batch=32), images=63, ask=compiler)  # says nothing of `auto`, which was not asked for
    assert not compiler.asked
    assert tuning.tune_recipe(recipe(), images=127, ask=compiler).choice.global_batch == 64


def test_v4_counts_replicas_not_cores():
    found = tuning.tune_recipe(recipe(), "v4-8", ask=Compiler())
    assert (found.choice.global_batch, found.choice.replicas, found.choice.cores, found.choice.chips) == (64, 4, 8, 4)
    assert any("two cores work as one, so 4 replicas were compiled for" in reason for reason in found.reasons)


def test_the_arithmetic_model_answers_where_no_compiler_is(monkeypatch):
    monkeypatch.setattr(tuning, "compiler_here", lambda: False)
    found = tuning.tune_recipe(recipe(), images=1000)
    assert found.choice.source == "model" and found.compiles == 0 and found.share == tuning.MODEL_SHARE
    assert any("arithmetic model answered" in reason for reason in found.reasons)
    assert tuning.model_share(chip("tpu7x-8")) < tuning.MODEL_SHARE  # it is further off there


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Runs `unetkit tune` with a compiler of known curves."""
    path = tmp_path / "tiny.yaml"
    path.write_text(
        "name: tiny\ndata: {source: emoji, size: 16}\nmodel: {preset: unet, levels: [4, 8], norm: none}\n"
        "training: {images: 3600000, batch: 64}\ntpu: {chip: v2-8}\n"
    )
    monkeypatch.chdir(tmp_path)

    def run(*arguments, compiler=None):
        monkeypatch.setattr(tuning, "ask_inspection", compiler or Compiler())
        monkeypatch.setattr(tuning, "compiler_here", lambda: True)
        return main(["tune", str(path), *arguments])

    return run


def test_the_command_shows_candidates_the_choice_and_the_best_accelerator(command, capsys):
    assert command("--chip", "v2-8,v5e-8", "--price", "v5e=1.2", "--price", "v2=0.5", "--write", "tuned.yaml", "--json", "found.json") == 0
    out = capsys.readouterr().out
    assert "v2-8: 4 chips, 8 cores, 8 replicas" in out and "training.batch: 128" in out and "3,600,000 images" in out
    assert "v2-8 (fastest, cheapest)" in out  # as fast as the v5e-8, on half the chips, for less each
    said = json.loads(Path("found.json").read_text())["chips"]
    assert set(said) == {"v2-8", "v5e-8"} and said["v2-8"]["choice"]["global_batch"] == 128
    row = said["v2-8"]["candidates"][0]
    configuration = "chip chips cores replicas global_batch per_core_batch accumulation precision remat lowering packing"
    assert {*configuration.split(), "fits", "hbm", "padding", "step", "source"} <= set(row) and "buffers" not in row
    assert {"compiles", "seconds"} <= set(said["v2-8"])
    tuned = read("tuned.yaml")
    assert tuned.training.batch == 128 and tuned.tpu.chip == "v2-8"


def test_the_command_says_3_where_nothing_fits(command, capsys):
    assert command("--json", "found.json", compiler=Compiler(per_image=200.0)) == 3
    assert "what would make it fit" in capsys.readouterr().out
    assert json.loads(Path("found.json").read_text())["chips"]["v2-8"]["choice"] is None


def test_ctrl_c_shows_what_is_known(command, capsys):
    assert command("--chip", "v2-8,v5e-8", compiler=Compiler(patience=1)) == 130
    out = capsys.readouterr().out
    assert "interrupted: of no batch that fits is it known yet how fast it is" in out and "training.batch: 128" in out


def test_bad_arguments_are_refused_before_anything_is_asked(command, capsys):
    compiler = Compiler()
    for arguments in (
        ["--chip", "v2-8,v9-8"],
        ["--set", "tpu.chip=v9-8"],
        ["--budget", "0"],
        ["--price", "v5e"],
        ["--price", "k80=1"],
        ["--price", "v3=1"],
        ["--write", "nowhere/t.yaml"],
    ):
        assert command(*arguments, compiler=compiler) == 2, arguments
    said = capsys.readouterr().err
    assert not compiler.asked and "--set tpu.chip=v9-8: tpu.chip: 'v9-8'" in said
    assert "--price v3=1: no v3 is asked about, only v2; name one with --chip, as v3-8" in said
