"""Sizes that halve, sizes that do not, and what the refusal says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unetkit.errors import UserError
from unetkit.shapes import check_halvable, level_sizes, nearest_multiples, round_up


@given(size=st.integers(1, 5000), multiple=st.integers(1, 600))
def test_round_up_is_the_smallest_multiple_from_size_on(size, multiple):
    rounded = round_up(size, multiple)
    assert rounded % multiple == 0
    assert size <= rounded < size + multiple


@given(size=st.integers(-5, 5000), multiple=st.integers(1, 600))
def test_nearest_multiples_are_positive_and_enclose_the_size(size, multiple):
    near = nearest_multiples(size, multiple)
    assert all(n > 0 and n % multiple == 0 for n in near)
    assert near[-1] >= size
    assert near[-1] - near[0] <= multiple
    assert len(near) == 2 or near[0] == size or size < multiple


def test_level_sizes_halve_from_the_outside_in():
    assert level_sizes((64, 32), 3) == ((64, 32), (32, 16), (16, 8), (8, 4))
    assert level_sizes(8, 0) == ((8, 8),)


def test_358_with_three_halvings_names_352_and_360():
    with pytest.raises(UserError, match=r"data\.size: 358 cannot be halved 3 times, as 4 levels need.* 352 and 360$"):
        check_halvable(358, 3)


def test_a_bottom_below_one_pixel_names_the_only_size_above():
    with pytest.raises(UserError, match=r"64 cannot be halved 7 times.*the nearest size that works is 128$"):
        check_halvable(64, 7)


def test_each_bad_side_gets_its_own_advice():
    with pytest.raises(UserError) as refusal:
        check_halvable((902, 602), 4, what="input_shape")
    assert str(refusal.value).startswith("input_shape: [902, 602] cannot be halved 4 times")
    assert "height 902: the nearest sizes that work are 896 and 912" in str(refusal.value)
    assert "width 602: the nearest sizes that work are 592 and 608" in str(refusal.value)


def test_only_the_bad_side_is_named():
    with pytest.raises(UserError, match="width 62: the nearest sizes that work are 60 and 64") as refusal:
        check_halvable((64, 62), 2)
    assert "height" not in str(refusal.value)


@pytest.mark.parametrize("size", [0, -8])
def test_no_pixels_is_refused(size):
    with pytest.raises(UserError, match="the nearest size that works is 4"):
        check_halvable(size, 2)


@given(halvings=st.integers(0, 9), times=st.integers(1, 9))
def test_multiples_pass(halvings, times):
    check_halvable((times * 2**halvings, 2**halvings), halvings)
