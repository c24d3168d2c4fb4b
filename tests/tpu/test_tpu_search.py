"""The batch search on known cost curves: a compiler that answers at once, and counts its questions."""

import dataclasses
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unetkit.shapes import round_up
from unetkit.tpu.answer import Answer, Hbm, Step
from unetkit.tpu.search import COMPILES, LANES_FROM, MARGIN, fill, fits, multiples, search

LIMIT = 1000


class Compiler:
    """Answers from two curves: `need(batch)` of LIMIT bytes, and `speed(batch)` in images per second."""

    def __init__(self, need, speed=fill):
        self.need, self.speed, self.asked = need, speed, []

    def __call__(self, batch, stage):
        assert batch % 8 == 0, f"asked about {batch}, which is padded to {round_up(batch, 8)}"
        self.asked.append((batch, stage))
        enough = self.need(batch) <= LIMIT
        answer = Answer(
            name="fake", chip="v2-8", chips=4, cores=8, replicas=8, global_batch=8 * batch, per_core_batch=batch, program="jax",
            source="compiled" if enough else "compiler_oom", fits=enough, hbm=Hbm(limit_bytes=LIMIT, peak_bytes=round(self.need(batch))),
        )  # fmt: skip
        if not enough or stage == "memory":
            return answer
        return dataclasses.replace(answer, step=Step(estimated_ms=1.0, images_per_second=self.speed(batch)))

    @property
    def fitting(self):
        return [b for b in range(8, 1024, 8) if self.need(b) <= (1 - MARGIN) * LIMIT]

    def exhaustive(self):
        return max(self.fitting, key=self.speed)


def rising(batch):
    return batch / (batch + 20)


@pytest.mark.parametrize("largest", range(8, 300, 8))
def test_the_limit_is_found_at_every_size(largest):
    compiler = Compiler(lambda b: 900 * b / largest, rising)
    found = search(compiler, expected=rising)
    assert found.best.per_core_batch == compiler.fitting[-1] == compiler.exhaustive()
    assert found.compiles <= COMPILES and len(compiler.asked) <= 22


def test_nothing_fits():
    compiler = Compiler(lambda b: 1001)
    found = search(compiler)
    assert found.best is None and found.compiles == 0
    assert {a.fits for a in found.answers.values()} == {False} and len(compiler.asked) <= 6


def test_what_needs_the_last_bytes_is_not_taken():
    compiler = Compiler(lambda b: 960 if b > 16 else 900, rising)
    assert search(compiler, expected=rising).best.per_core_batch == 16
    assert search(compiler, expected=rising, share=1.0, most=56).best.per_core_batch == 56


def test_the_fastest_is_not_the_largest():
    """The question's own net on a v2-8: 16 images a core cost 260.7 M cycles, 24 cost 431.1 M, and 32 do not fit."""
    cycles = {8: 160.0, 16: 260.7, 24: 431.1}
    compiler = Compiler(lambda b: 39 * b if b <= 24 else 2000, lambda b: b / cycles.get(b, 1e3))
    found = search(compiler, expected=lambda b: 1.0)
    assert found.best.per_core_batch == 16 and found.compiles <= 3


def test_a_padding_step_at_17_is_never_paid():
    compiler = Compiler(lambda b: 30 * round_up(b, 8), lambda b: b / round_up(b, 8))
    found = search(compiler)
    assert found.best.per_core_batch in compiler.fitting and all(b % 8 == 0 for b, _ in compiler.asked)


def lanes(batch):
    """Bytes of a net of few channels: padded eightfold while the batch lies in the rows, to 128 images from 64 on."""
    return 8 * batch if batch < LANES_FROM else round_up(batch, 128)


def test_what_fits_again_beyond_the_layout_switch_is_found():
    compiler = Compiler(lambda b: 2.5 * lanes(b), lambda b: b / lanes(b))
    assert 56 not in compiler.fitting and 64 in compiler.fitting
    found = search(compiler)
    assert found.best.per_core_batch % 128 == 0 and found.best.per_core_batch == compiler.exhaustive()


def test_a_second_layout_is_tried_though_the_expectation_is_wrong():
    compiler = Compiler(lambda b: 2 * b, lambda b: 1.0 if b < LANES_FROM else 3 * fill(b))
    found = search(compiler, expected=lambda b: 1.0 if b < LANES_FROM else 0.9 * fill(b))
    assert found.best.per_core_batch == 128


BUMPS = st.lists(st.floats(0.99, 1.01), min_size=64, max_size=64)


@settings(max_examples=60, deadline=None)
@given(bumps=BUMPS, largest=st.integers(1, 40))
def test_within_three_percent_of_the_exhaustive_best_on_uneven_curves(bumps, largest):
    """A cost that is not monotone: one layout's curve with a step at the switch, each batch a little off what is expected."""

    def speed(batch):
        return rising(batch) * (1.3 if batch >= LANES_FROM else 1.0) * bumps[batch // 8 - 1]

    compiler = Compiler(lambda b: 900 * b / (8 * largest), speed)
    found = search(compiler, expected=rising)
    assert found.compiles <= COMPILES
    assert found.best.step.images_per_second >= 0.97 * speed(compiler.exhaustive())


def test_a_size_that_was_seen_to_fail_is_never_chosen():
    """Memory with a hole: interpolation takes 40 for fitting, the compiler refuses it."""
    compiler = Compiler(lambda b: 2000 if b == 40 else 10 * b, lambda b: 2.0 if b == 40 else 1.0)
    found = search(compiler, expected=lambda b: 2.0 if b == 40 else 1.0, most=56, start=56)
    assert (40, "full") in compiler.asked and found.answers[40].fits is False
    assert found.best.per_core_batch != 40 and fits(found.best)


def test_the_choice_is_always_compiled_and_the_rest_is_marked():
    compiler = Compiler(lambda b: 5 * b, rising)
    found = search(compiler, expected=rising)
    assert found.best.source == "compiled" and (found.best.per_core_batch, "full") in compiler.asked
    asked = {b for b, _ in compiler.asked}
    for batch, answer in found.answers.items():
        assert (answer.source == "interpolated") == (batch not in asked)
        if answer.source == "interpolated":
            assert answer.hbm.peak_bytes == pytest.approx(5 * batch, rel=0.02) and answer.step.images_per_second is None
            assert answer.global_batch == 8 * batch


def test_ctrl_c_keeps_what_is_known():
    compiler = Compiler(lambda b: 20 * b, rising)

    def interrupted(batch, stage):
        if stage == "full" and any(s == "full" for _, s in compiler.asked):
            raise KeyboardInterrupt
        return compiler(batch, stage)

    found = search(interrupted, expected=lambda b: 1.0)
    assert found.ended == "interrupted" and found.best is not None and found.compiles == 1


def test_no_question_is_begun_when_the_time_is_over():
    now = [0.0]

    def ask(batch, stage):
        now[0] += 60.0
        return compiler(batch, stage)

    compiler = Compiler(lambda b: 20 * b, rising)
    found = search(ask, seconds=150.0, clock=lambda: now[0])
    assert found.ended == "out of time" and len(compiler.asked) == 3 and found.seconds == 180.0


def test_the_data_may_limit_the_batch():
    compiler = Compiler(lambda b: b, rising)
    assert search(compiler, expected=rising, most=50).best.per_core_batch == 48
    assert max(b for b, _ in compiler.asked) <= 50


def test_of_large_batches_few_are_looked_at():
    """A small net on a large chip: thousands of multiples of 8 fit, and each that is looked at costs an estimate."""
    assert multiples(8, 120) == list(range(8, 121, 8)) and multiples(64, 64) == [64]
    many = multiples(64, 45000, known=[1000, 50000])
    assert many[:24] == list(range(64, 256, 8)) and {1000, 45000} < set(many) and len(many) < 160
    assert all(b % 8 == 0 and (b - a <= 8 or b / a <= 1.07) for a, b in itertools.pairwise(many))
    expected = []
    compiler = Compiler(lambda b: b / 50, rising)
    found = search(compiler, expected=lambda b: expected.append(b) or rising(b))
    assert found.best.step.images_per_second >= 0.999 * rising(47500) and len(set(expected)) < 180
