"""The rule for operations without cycles, by hand-computed cases."""

import pytest

from unetkit.tpu import uncounted
from unetkit.tpu.chips import chip


def test_other_operations_take_their_bytes_over_the_bandwidth():
    assert uncounted.bytes_seconds(350e9, chip("v2-8")) == pytest.approx(1.0)
    assert uncounted.bytes_seconds(350e9, chip("v4-8")) == pytest.approx(350 / 1228)


def test_an_all_reduce_sends_its_bytes_twice_over_the_links_of_a_chip():
    # 4 chips in 2x2, two links of 62 GB/s: 2 x 1e9 x 3/4 / 124e9
    assert uncounted.collective_seconds("all-reduce", 1e9, 0, chip("v2-8")) == pytest.approx(1.5e9 / 124e9)
    assert uncounted.collective_seconds("all-gather", 1e9, 0, chip("v2-8")) == pytest.approx(0.75e9 / 124e9)


def test_a_small_all_reduce_takes_its_hops():
    # 4x4: two hops along each axis, there and back
    assert uncounted.collective_seconds("all-reduce", 4, 8, chip("v3-32")) == pytest.approx(8e-6)


def test_a_collective_on_one_chip_only_passes_memory():
    assert uncounted.collective_seconds("all-reduce", 1e9, 2e9, chip("v5e-1")) == pytest.approx(2e9 / 819e9)


def test_a_permutation_uses_one_link():
    assert uncounted.collective_seconds("collective-permute", 1e9, 0, chip("v5e-8")) == pytest.approx(1 / 50)


def test_half_the_bandwidth_doubles_what_rests_on_it():
    whole, half = chip("v3-32"), uncounted.with_bandwidths(chip("v3-32"), 0.5)
    assert uncounted.bytes_seconds(1e9, half) == pytest.approx(2 * uncounted.bytes_seconds(1e9, whole))
    assert uncounted.collective_seconds("all-reduce", 1e9, 0, half) == pytest.approx(
        2 * uncounted.collective_seconds("all-reduce", 1e9, 0, whole)
    )
