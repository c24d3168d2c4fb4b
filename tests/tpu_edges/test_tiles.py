"""Tile arithmetic against sizes that real TPU compilers printed, and against what padding means."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unetkit.errors import UserError
from unetkit.tpu import tiles

MIB = 2**20
GENERATIONS = ("v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x")


@pytest.mark.parametrize(
    ("text", "unpadded_mib", "padded_mib"),
    [
        ("f32[4,128,128,9,18]{4,3,0,2,1:T(8,128)}", 40.5, 512),
        ("bf16[4,512,512,64]{3,0,2,1:T(4,128)(2,1)}", 128, 256),
        ("f32[4,256,256,256]{3,0,2,1:T(4,128)}", 256, 256),
        ("f32[4,256,256,64]{3,0,2,1:T(4,128)}", 64, 128),
        ("f32[128,256,896,18]{0,3,2,1:T(8,128)}", 2016, 2688),
        ("f32[128,56,32,96]{0,1,3,2:T(8,128)}", 84, 84),
        ("s32[29360128,10]{1,0:T(8,128)}", 1120, 14 * 1024),
        ("s32[8388608,8,4]{2,1,0:T(8,128)}", 1024, 32 * 1024),
        ("f32[409600,1,64,64]{0,1,3,2:T(2,128)}", 6400, 12800),
    ],
)
def test_bytes_are_those_that_real_compilers_reported(text, unpadded_mib, padded_mib):
    tiled = tiles.parse(text)
    assert tiled.unpadded_bytes == unpadded_mib * MIB
    assert tiled.padded_bytes == padded_mib * MIB
    assert tiled.expansion == padded_mib / unpadded_mib
    assert str(tiled) == text


@pytest.mark.parametrize(
    ("shape", "order", "expansion"),
    [
        ((32, 128, 32, 64), (3, 0, 2, 1), 2.0),
        ((32, 128, 32, 32), (3, 0, 2, 1), 4.0),
        ((32, 128, 32, 2), (3, 0, 2, 1), 64.0),
        ((32, 128, 32, 1), (3, 0, 2, 1), 128.0),
        ((16, 128, 32, 128), (3, 0, 2, 1), 1.0),
        ((128, 128, 32, 8), (0, 3, 2, 1), 1.0),
        ((128, 128, 32, 8), (3, 0, 2, 1), 16.0),
    ],
)
def test_channels_and_batch_cost_what_the_place_they_lie_in_costs(shape, order, expansion):
    assert tiles.place("f32", shape, order, "v2").expansion == expansion


# What libtpu 0.0.52 printed for the parameters of a jitted function, per generation.
@pytest.mark.parametrize(
    ("generation", "text"),
    [
        ("v2", "f32[7]{0:T(256)}"),
        ("v2", "f32[]{:T(256)}"),
        ("v2", "f32[1,300]{1,0:T(2,128)}"),
        ("v2", "bf16[7]{0:T(512)(128)(2,1)}"),
        ("v2", "bf16[]{:T(512)}"),
        ("v2", "bf16[1,300]{1,0:T(4,128)(2,1)}"),
        ("v2", "s8[3,300]{1,0:T(8,128)(4,1)}"),
        ("v3", "s8[64,512]{1,0:T(8,128)(4,1)}"),
        ("v4", "f32[7]{0:T(128)}"),
        ("v4", "s8[64,512]{1,0:T(32,128)(4,1)}"),
        ("v5e", "f32[300]{0:T(512)}"),
        ("v5e", "f32[5000]{0:T(1024)}"),
        ("v5e", "f32[3,1,300]{2,1,0:T(1,128)}"),
        ("v5e", "bf16[1,300]{1,0:T(2,128)(2,1)}"),
        ("v5e", "s8[33,300]{1,0:T(8,128)(4,1)}"),
        ("v5p", "pred[300]{0:T(512)(128)(4,1)}"),
        ("v6e", "bf16[16,32,32,64]{3,0,2,1:T(8,128)(2,1)}"),
        ("tpu7x", "bf16[16,32,32,64]{3,0,2,1:T(16,128)(2,1)}"),
        ("tpu7x", "bf16[24,64,64,64]{3,0,2,1:T(8,128)(2,1)}"),
        ("tpu7x", "f32[64,512]{1,0:T(8,128)}"),
    ],
)
def test_default_tiles_are_the_compilers(generation, text):
    tiled = tiles.parse(text)
    assert tiles.place(tiled.dtype, tiled.shape, tiled.order, generation) == tiled


def test_items_of_two_bits_fill_whole_words():
    tiled = tiles.place("u2", (8, 1), (1, 0), "v2")
    assert str(tiled) == "u2[8,1]{1,0:T(32,128)(16,1)}"
    assert tiled.padded_bytes == 32 * 128 * 2 // 8


@given(
    dtype=st.sampled_from(sorted(tiles.ITEM_BITS)),
    shape=st.lists(st.integers(1, 300), min_size=2, max_size=5).map(tuple),
    generation=st.sampled_from(GENERATIONS),
    data=st.data(),
)
def test_padding_never_shrinks_and_costs_nothing_only_at_exact_multiples(dtype, shape, generation, data):
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    tiled = tiles.place(dtype, shape, order, generation)
    rows, lanes = tiled.tiles[0]
    exact = shape[tiled.lanes] % lanes == 0 and shape[tiled.sublanes] % rows == 0
    assert tiled.padded_bytes >= tiled.unpadded_bytes
    assert (tiled.padded_bytes == tiled.unpadded_bytes) == exact
    # Independent of the general rule for nested tiles: the two minor-most sizes rounded up, the rest as they are.
    others = math.prod(shape) // (shape[tiled.lanes] * shape[tiled.sublanes])
    rounded = math.ceil(shape[tiled.lanes] / lanes) * lanes * math.ceil(shape[tiled.sublanes] / rows) * rows
    assert tiled.padded_bytes * 8 == others * rounded * tiles.ITEM_BITS[dtype]
    assert tiles.parse(str(tiled)) == tiled


def test_tuples_memory_spaces_and_missing_layouts_are_read():
    text = "(f32[8,128]{1,0:T(8,128)S(1)}, u32[], pred[3,4]{1,0}, bf16[2,2], /*index=4*/f32[5]{0:T(256)})"
    found = list(tiles.find(text))
    assert [str(tiled) for tiled in found] == [
        "f32[8,128]{1,0:T(8,128)S(1)}",
        "u32[]{}",
        "pred[3,4]{1,0}",
        "bf16[2,2]{1,0}",
        "f32[5]{0:T(256)}",
    ]
    assert found[0].space == 1
    assert [tiled.padded_bytes for tiled in found] == [4096, 4, 12, 8, 1024]


@pytest.mark.parametrize("text", ["", "hello", "f32", "f32[2,2]{1,0} f32[2]", "q7[3,3]{1,0}"])
def test_what_is_not_a_shape_is_an_error_that_shows_the_notation(text):
    with pytest.raises(UserError, match=r"as f32\[16,256,256,64\]"):
        tiles.parse(text)


def test_a_layout_that_misses_a_dimension_is_an_error():
    with pytest.raises(UserError, match="does not name each of its 3 dimensions once"):
        tiles.parse("f32[4,5,6]{1,0}")
