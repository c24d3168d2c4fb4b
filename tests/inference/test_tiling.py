"""Where tiles begin and what they count for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unetkit.errors import UserError
from unetkit.inference.tiling import WINDOWS, axis
from unetkit.shapes import round_up, tile_starts


@given(st.integers(1, 8), st.integers(1, 12), st.integers(0, 90), st.integers(0, 400))
def test_tiles_cover_the_length_on_the_grid_evenly_with_the_overlap(stride, steps, overlap, more):
    tile = stride * steps
    overlap = min(overlap, tile - stride)
    length = tile + round_up(more, stride)
    starts = tile_starts(length, tile, overlap, stride)
    gaps = np.diff(starts)
    assert starts[0] == 0 and starts[-1] + tile == length
    assert all(start % stride == 0 for start in starts)
    assert all(0 < gap <= tile - overlap for gap in gaps)
    assert not len(gaps) or max(gaps) - min(gaps) <= stride
    fewest = -(-(length - tile) // ((tile - overlap) // stride * stride)) + 1
    assert len(starts) == fewest


@pytest.mark.parametrize(("tile", "overlap", "stride"), [(16, 16, 1), (16, 20, 1), (16, -1, 1), (16, 13, 4)])
def test_an_overlap_that_leaves_no_step_is_refused(tile, overlap, stride):
    with pytest.raises(UserError, match=rf"overlap: {overlap} does not fit a tile of {tile}: it must be 0 to {tile - stride}"):
        tile_starts(40, tile, overlap, stride)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("tile", "overlap", "stride", "radius"), [(16, 8, 4, 4), (16, 12, 4, 6), (12, 0, 1, 0), (24, 10, 8, 5)])
def test_weights_sum_to_one_everywhere(window, tile, overlap, stride, radius):
    for length in range(1, 3 * tile + 2):
        cut = axis(length, tile, overlap, stride, window, radius)
        total = np.zeros(length)
        for number in range(len(cut.starts)):
            there, own = cut.counted(number)
            total[there] += cut.weights[number][own]
            assert np.array_equal(cut.sources(number)[own], np.arange(length)[there]), "what counts is the image itself, not moved"
            if (stretch := cut.inside(number)) is not None:
                assert np.array_equal(cut.sources(number), np.arange(length)[stretch])
        np.testing.assert_allclose(total, 1, atol=1e-6)


def test_the_exact_window_has_no_weight_near_inner_edges_and_full_weight_at_the_rim():
    cut = axis(40, 16, 8, 4, "exact", 4)
    assert cut.starts == (0, 8, 16, 24)
    assert not cut.weights[0][-4:].any() and not cut.weights[1][:4].any() and not cut.weights[1][-4:].any()
    assert (cut.weights[0][:4] == 1).all() and (cut.weights[-1][-4:] == 1).all()


def test_beyond_the_rim_lies_the_mirror_image():
    cut = axis(6, 16, 0, 4, "hann", 0)
    assert cut.before == 4 and cut.sources(0).tolist() == [4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 4, 3, 2, 1, 0, 1]
    assert axis(1, 4, 0, 4, "hann", 0).sources(0).tolist() == [0, 0, 0, 0]
    assert axis(17, 16, 0, 4, "hann", 0).before == 0, "a length above a tile begins where the grid does"


def test_an_exact_window_that_leaves_pixels_to_nobody_is_refused():
    with pytest.raises(UserError, match=r"neighbours must share at least 8 pixels; overlap is 4"):
        axis(40, 16, 4, 4, "exact", 4)
    with pytest.raises(UserError, match=r"window: 'han' is none of exact, hann, gaussian"):
        axis(40, 16, 4, 4, "han", 4)
    with pytest.raises(UserError, match="0 pixels along an axis"):
        axis(0, 16, 4, 4, "hann", 4)
