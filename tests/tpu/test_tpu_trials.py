"""Advice is tried before it is given: what is asked, and what is kept of the answers."""

import dataclasses

import pytest

from unetkit import recipe
from unetkit.tpu import trials
from unetkit.tpu.answer import Answer, Hbm, Padding

RECIPE = "name: r\ndata: {{source: emoji}}\nmodel: {{levels: {levels}}}\ntraining: {{batch: {batch}, epochs: 1, precision: {precision}}}\n"


def asked_about(levels="[64, 128]", batch=128, precision="float32"):
    read = recipe.read(RECIPE.format(levels=levels, batch=batch, precision=precision))
    return read, known(read, needed=1000)


def known(read, needed=1000, ratio=2.0, fits=True) -> Answer:
    batch = read.training.batch
    return Answer(
        name="r", chip="v2-8", chips=4, cores=8, replicas=8, global_batch=batch,
        per_core_batch=batch // 8 // read.training.accumulate, source="compiled", program="jax", fits=fits,
        hbm=Hbm(peak_bytes=needed, argument_bytes=100), padding=Padding(ratio=ratio),
    )  # fmt: skip


def texts(read, answer) -> list[str]:
    return [trial.text for trial in trials.changes(read, answer)]


def test_a_batch_between_tiles_is_tried_at_the_tile_below():
    read, answer = asked_about(batch=136)
    (trial,) = [t for t in trials.changes(read, answer) if t.changed.training.batch < 136]
    assert trial.changed.training.batch == 128
    assert "17 are padded to 24" in trial.text and trial.beside.training.batch == 192


def test_of_a_batch_that_does_not_fit_what_fits_is_tried():
    read, answer = asked_about(batch=256)
    refused = dataclasses.replace(answer, fits=False, hbm=Hbm(peak_bytes=2000, argument_bytes=100, limit_bytes=1700))
    assert [t.changed.training.batch for t in trials.changes(read, refused) if t.changed.training.batch < 256] == [192]  # 26 per replica
    assert "accumulate: 2," in " ".join(texts(read, refused))
    far = dataclasses.replace(refused, hbm=Hbm(peak_bytes=2000, argument_bytes=100, limit_bytes=300))
    assert [t.changed.training.batch for t in trials.changes(read, far) if t.changed.training.batch < 256] == [24]  # 3 per replica
    assert "accumulate: 16," in " ".join(texts(read, far))
    weights_alone = dataclasses.replace(refused, hbm=Hbm(peak_bytes=2000, argument_bytes=100, limit_bytes=90))
    assert not any("accumulate" in text or "fits" in text for text in texts(read, weights_alone))


def test_whole_tiles_are_left_alone():
    read, answer = asked_about(batch=128)
    assert not [t for t in trials.changes(read, answer) if t.changed.training.batch < 128]


def test_padding_makes_a_batch_worth_trying_that_fills_the_lanes():
    read, answer = asked_about(batch=128)
    assert [t.changed.training.batch for t in trials.changes(read, answer) if t.changed.training.batch > 128] == [1024]
    tight = dataclasses.replace(answer, padding=Padding(ratio=1.05))
    assert not [t for t in trials.changes(read, tight) if t.changed.training.batch > 128]


def test_channels_just_below_the_lanes_are_tried_wider():
    read, answer = asked_about(levels="[96, 64, 128, 200]")
    wider = [t.changed.model.levels for t in trials.changes(read, answer) if t.changed.model != read.model]
    assert [[level.channels for level in levels] for levels in wider] == [[128, 64, 128, 200], [96, 64, 128, 256]]


@pytest.mark.parametrize(("precision", "tried"), [("float32", True), ("mixed_bfloat16", False)])
def test_half_precision_is_tried_once(precision, tried):
    read, answer = asked_about(precision=precision)
    assert any("mixed_bfloat16" in text for text in texts(read, answer)) is tried


def test_accumulation_needs_a_batch_that_can_be_shared():
    assert any("accumulate: 2" in text for text in texts(*asked_about(batch=128)))
    assert not any("accumulate" in text for text in texts(*asked_about(batch=136)))


def test_only_what_came_out_lower_and_fits_is_told_the_best_first():
    read, answer = asked_about()
    results = {"mixed_bfloat16": known(read, needed=700), "accumulate": known(read, needed=600), "per replica": known(read, fits=False)}

    def ask(recipes):
        offered = texts(read, answer)
        assert len(recipes) == len(offered)
        return [next(found for word, found in results.items() if word in text) for text in offered]

    told = trials.tried(trials.changes(read, answer), answer, ask)
    assert [(a.before, a.after, a.tried) for a in told] == [(1000, 600, "compiled"), (1000, 700, "compiled")]
    assert "accumulate" in told[0].text


@pytest.mark.parametrize(("needed", "told"), [(1000, True), (1100, False)])
def test_the_batch_above_is_told_only_if_it_needs_no_more(needed, told):
    read, answer = asked_about(batch=136, precision="mixed_bfloat16")
    answer = dataclasses.replace(answer, padding=Padding(ratio=1.0))
    found = {128: 700, 192: needed}
    (advice,) = trials.tried(
        trials.changes(read, answer), answer, lambda recipes: [known(r, needed=found[r.training.batch]) for r in recipes]
    )
    assert ("192, 24 per replica, need no more than 17" in advice.text) is told


def test_a_change_that_helps_too_little_is_not_told():
    read, answer = asked_about()
    barely = dataclasses.replace(answer, hbm=Hbm(peak_bytes=990, argument_bytes=100))
    assert trials.tried(trials.changes(read, answer), answer, lambda recipes: [barely for _ in recipes]) == ()


def test_of_any_model_other_batches_are_tried():
    _, answer = asked_about(batch=136)
    made = list(trials.batch_changes(answer, lambda batch: batch, "batch"))
    assert [(t.changed, t.beside) for t in made] == [(128, 192), (1024, None)]
    assert made[0].text.startswith("batch: 128, 16 per replica")
