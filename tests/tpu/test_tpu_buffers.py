"""Buffer assignment and live ranges against the compiler's own totals."""

import re

import pytest

from unetkit.tpu import buffers

ASSIGNMENT = """BufferAssignment:
allocation 0: size 4096, page 0, parameter 0, shape |f32[4,128]| at ShapeIndex {}, maybe-live-out:
 value: <1 weight @0> (size=4096,offset=0): f32[4,128]{1,0:T(8,128)}
 value: <9 new_weight @0> (size=4096,offset=0): f32[4,128]{1,0:T(8,128)}
allocation 1: size 1024, page 0, maybe-live-out:
 value: <8 loss @0> (size=1024,offset=0): f32[]{:T(256)}
allocation 2: size 1024, page 0, constant:
 value: <7 one @0> (size=1024,offset=0): f32[]{:T(256)}
allocation 3: size 2048, color 1, page 0, preallocated-temp:
 value: <6 on_chip @1> (size=2048,offset=0): f32[4,64]{1,0:T(8,128)S(1)}
allocation 4: size 16384, page 0, preallocated-temp:
 value: <2 a @0> (size=4096,offset=0): f32[8,64]{1,0:T(8,128)}
 value: <3 b{0} @0> (size=4096,offset=4096): f32[8,128]{1,0:T(8,128)}
 value: <4 in_place @0> (size=4096,offset=0): f32[8,32]{1,0:T(8,128)}
 value: <5 late @0> (size=8192,offset=8192): f32[16,128]{1,0:T(8,128)}
"""
RANGES = """HloLiveRange (max 4):
  InstructionSequence:
    0:weight
    1:a
    2:b
    3:in_place
    4:late
  BufferLiveRange:
    weight{}:0-4
    a{}:1-3
    b{0}:2-3
    in_place{}:3-4
    late{}:4-4
"""


@pytest.fixture(scope="module")
def little():
    return buffers.parse(ASSIGNMENT, RANGES)


def test_allocations_add_up_by_role_and_what_lies_on_the_chip_is_not_hbm(little):
    assert little.sizes == {"parameter": 4096, "output": 1024, "constant": 1024, "temporary": 16384}
    assert little.total_bytes == 4096 + 1024 + 1024 + 16384
    assert little.donated_bytes == 4096
    assert "on_chip" not in {v.instruction for v in little.values}


def test_the_curve_counts_memory_that_is_written_in_place_once(little):
    steady = 4096 + 1024 + 1024
    assert [padded for padded, _ in little.curve()] == [steady, steady + 4096, steady + 8192, steady + 8192, steady + 4096 + 8192]


def test_of_values_on_one_another_the_latest_is_alive_and_an_argument_keeps_its_name(little):
    names = {v.instruction for v in little.alive_at(3)}
    assert names == {"weight", "loss", "one", "b", "in_place"}


def test_unpadded_bytes_are_those_of_the_items(little):
    sizes = {v.instruction: v.unpadded_bytes for v in little.values}
    assert (sizes["a"], sizes["b"], sizes["in_place"], sizes["loss"]) == (8 * 64 * 4, 8 * 128 * 4, 8 * 32 * 4, 4)


@pytest.mark.parametrize("name", ["original_v2", "original_v2_tensorflow"])
def test_recorded_peak_is_the_compilers(recorded, name):
    """Its `peak_memory_in_bytes`, but that results which are not donated count here all the time."""
    _, record, _ = recorded(name)
    memory = buffers.parse(record.buffers, record.ranges)
    peak = max(padded for padded, _ in memory.curve())
    assert 0 <= peak - record.memory["peak"] <= memory.sizes["output"] < 1e-3 * peak
    assert memory.sizes["parameter"] == record.memory["argument"]


def test_recorded_refusal_names_the_total_of_its_dump(recorded):
    _, record, _ = recorded("original_v2_oom")
    needed = re.search(r"temporaries \(([\d.]+)G\)", record.message)
    assert record.outcome == "oom" and needed
    assert buffers.parse(record.buffers, record.ranges).total_bytes / 2**30 == pytest.approx(float(needed[1]), abs=0.005)
