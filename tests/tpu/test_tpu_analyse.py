"""Answers from recorded programs: kinds, layers, limits, and what is said about them."""

import dataclasses
import json

import pytest

from unetkit.tpu import analyse, limits, terminal
from unetkit.tpu.answer import Answer
from unetkit.tpu.ask import Program
from unetkit.tpu.record import Record


@pytest.fixture(scope="module")
def answers(recorded):
    return {n: analyse.answer(*recorded(n)) for n in ("original_v2", "original_v2_tensorflow", "original_v2_oom", "unet_v5e_accumulate")}


def test_memory_adds_up(answers):
    for answer in answers.values():
        hbm = answer.hbm
        assert hbm.peak_bytes == hbm.argument_bytes + hbm.temp_bytes + hbm.output_bytes
        assert hbm.argument_bytes == hbm.weight_bytes + hbm.optimizer_bytes + hbm.input_bytes
        assert answer.padding.peak_padded_bytes <= hbm.peak_bytes
        assert answer.padding.ratio == answer.padding.peak_padded_bytes / answer.padding.peak_unpadded_bytes > 1


def test_the_table_of_buffers_is_the_peak(answers):
    for answer in answers.values():
        assert sum(b.padded_bytes for b in answer.buffers) == answer.padding.peak_padded_bytes
        assert sum(b.unpadded_bytes for b in answer.buffers) == answer.padding.peak_unpadded_bytes
        assert answer.curve.padded_bytes[answer.curve.peak] == max(answer.curve.padded_bytes) == answer.padding.peak_padded_bytes


def test_buffers_have_kind_layer_and_layout(answers):
    rows = {(b.kind, b.layer): b for b in answers["original_v2"].buffers}
    first = rows["activation", "down_0/block0/conv1"]
    assert (first.shape, first.layout) == ("u32[8,32,8]", "{2,0,1:T(8,128)}") or first.shape == "f32[8,32,32,8]"
    assert ("weight", "bottom/block0/conv2/kernel") in rows and ("optimizer", "bottom/block0/conv2/kernel") in rows
    assert ("input", "input") in rows and ("input", "target") in rows
    assert max(b.expansion for b in answers["original_v2"].buffers if b.kind == "activation" and b.count == 1) >= 16


def test_adam_keeps_two_arrays_for_each_weight(answers):
    for name in ("original_v2", "original_v2_tensorflow"):
        hbm = answers[name].hbm
        assert 2 * hbm.weight_bytes == pytest.approx(hbm.optimizer_bytes, rel=0.05)


def test_step_and_utilisation_follow_from_the_profile(answers):
    answer = answers["original_v2"]
    step = answer.step
    assert step.estimated_ms == pytest.approx(sum(c.ms for c in answer.categories))
    assert step.images_per_second == pytest.approx(64 / step.estimated_ms * 1e3)
    assert step.images_per_second_per_chip == pytest.approx(step.images_per_second / 4)
    assert step.mxu_utilization == pytest.approx(step.flops / (step.estimated_ms / 1e3 * 23e12))


def test_a_refused_program_says_by_how_much_and_shows_its_buffers(answers):
    answer = answers["original_v2_oom"]
    assert (answer.fits, answer.source, answer.buffers_from) == (False, "compiler_oom", analyse.FROM_DUMP)
    assert answer.hbm.peak_bytes > answer.hbm.limit_bytes == int(7.48 * 2**30)
    assert answer.step.estimated_ms is None and not answer.categories
    assert limits.broken(answer) == ["original_v2_oom on v2-8 at batch 2048 does not fit"]
    text = terminal.text([answer])
    assert "does not fit" in text and "too much" in text and "activation" in text


def test_tensorflows_program_gets_the_reduction_it_lacks(answers):
    answer = answers["original_v2_tensorflow"]
    added = [c for c in answer.categories if c.name == "all-reduce"]
    assert len(added) == 1 and added[0].estimated_from_bytes_share == 1.0
    assert analyse.ONE_REPLICA in answer.notes and answer.program == "tensorflow"
    assert {"tensorflow", "keras", "libtpu"} <= set(answer.versions)


def test_both_engines_programs_cost_about_the_same(answers):
    jax, tensorflow = answers["original_v2"], answers["original_v2_tensorflow"]
    assert jax.step.flops == pytest.approx(tensorflow.step.flops, rel=1e-6)
    assert jax.step.estimated_ms == pytest.approx(tensorflow.step.estimated_ms, rel=0.1)
    assert jax.hbm.peak_bytes == pytest.approx(tensorflow.hbm.peak_bytes, rel=0.15)


def test_a_crash_is_an_answer(recorded):
    lowered, _, where = recorded("original_v2")
    answer = analyse.answer(lowered, Record(outcome="crashed", message="The compiler died (killed by SIGSEGV)"), where)
    assert (answer.fits, answer.source) == (None, "compiler_crash")
    assert "SIGSEGV" in terminal.text([answer]) and "SIGSEGV" in limits.broken(answer)[0]


def test_memory_alone_has_no_times(recorded):
    lowered, record, where = recorded("original_v2")
    answer = analyse.answer(lowered, dataclasses.replace(record, outcome="memory"), where)
    assert answer.fits and answer.step.estimated_ms is None and analyse.WITHOUT_TIME in answer.notes


def test_answers_survive_json(answers):
    for answer in answers.values():
        assert Answer.from_dict(json.loads(json.dumps(answer.to_dict(), allow_nan=False))) == answer


def test_the_terminal_shows_what_was_asked_for(answers, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    text = terminal.text([answers["original_v2"]])
    for words in (
        "fits",
        "weights",
        "padding ratio",
        "peak at",
        "down_0/block0/conv1",
        "output fusion",
        "level 0",
        "matrix units",
        "padding is 25.88 MiB of these 27.85 MiB; most in activation of down_0/block0/conv1 (3.75 MiB)",
        "most is wasted in output fusion: 56.5% of the step",
        "not measured",
    ):
        assert words in text
    assert text == terminal.text(answers["original_v2"])


def test_on_a_narrow_terminal_no_line_is_wider_and_no_bytes_are_broken(answers, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = terminal.text(answers["original_v2"]).splitlines()
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.strip() in ("MiB", "KiB", "GiB")]
    assert any(line.endswith("256.00 KiB    4.00 MiB  16.00") for line in lines)


def test_levels_beyond_those_shown_are_summed(answers, monkeypatch):
    monkeypatch.setitem(terminal.SHOWN, "levels", 2)
    rows = [line.split() for line in terminal.text(answers["original_v2"]).splitlines()]
    assert ["3", "more", "3.0%", "10.2%"] in rows


def test_several_answers_are_a_table(answers, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    text = terminal.text([answers["original_v2"], answers["original_v2_oom"]])
    rows = [line.split() for line in text.splitlines()[2:4]]
    assert [row[0] for row in rows] == ["64", "2048"] and [row[2] for row in rows] == ["yes", "no"]


@pytest.mark.parametrize(
    ("max_padding", "max_hbm", "words"), [(None, None, []), (1.5, None, ["padded"]), (None, 1e-6, ["usable HBM"]), (100.0, 1.0, [])]
)
def test_limits_name_what_they_found(answers, max_padding, max_hbm, words):
    broken = limits.broken(answers["original_v2"], max_padding, max_hbm)
    assert len(broken) == len(words) and all(word in line for word, line in zip(words, broken, strict=True))


def test_a_program_is_known_by_its_code():
    assert Program(code=b"a").fingerprint == Program(code=b"a", replicas=8).fingerprint != Program(code=b"b").fingerprint
