"""Layer and pass from the names that JAX and TensorFlow leave on instructions."""

import pytest

from unetkit.tpu.layers import NOWHERE, Place, place_of

LAYERS = frozenset({"down_0", "down_1", "block0", "conv1", "drop"})


@pytest.mark.parametrize(
    ("name", "layer", "in_pass"),
    [
        ("jit(train_step)/jvp(down_0)/block0/conv1/conv_general_dilated", "down_0/block0/conv1", "forward"),
        ("jit(train_step)/transpose(jvp(down_0))/block0/conv1/conv_general_dilated", "down_0/block0/conv1", "backward"),
        ("jit(train_step)/jvp(down_0)/block0/jit(silu)", "down_0/block0", "forward"),
        ("jit(train_step)/jvp(bottom)/block0/drop/jit(_bernoulli)/jit(_uniform)/slice", "bottom/block0/drop", "forward"),
        ("jit(train_step)/while/body/transpose(jvp(up_1))/block0/conv2/add", "up_1/block0/conv2", "backward"),
        ("jit(train_step)/adam/mul", "adam", "update"),
        ("jit(train_step)/jvp()/reduce_sum", None, "forward"),
        ("jit(train_step)/squeeze", None, "other"),
        ("down_1/block0_2/conv1_1/Conv2D", "down_1/block0/conv1", "forward"),
        ("gradient_tape/down_0_1/block0/conv1/Conv2DBackpropFilter", "down_0/block0/conv1", "backward"),
        ("down_0/block0/drop_1/stateless_dropout/GreaterEqual", "down_0/block0/drop", "forward"),
        ("gradient_tape/Maximum", None, "backward"),
        ("adam/Add_3", "adam", "update"),
        ("Abs", None, "other"),
    ],
)
def test_a_name_tells_layer_and_pass(name, layer, in_pass):
    assert place_of(name, LAYERS) == Place(layer, in_pass)


def test_no_name_is_nowhere():
    assert place_of(None) == NOWHERE
    assert place_of("state['trainable']['model'][0]") == NOWHERE


@pytest.mark.parametrize(
    ("place", "level"),
    [
        (Place("down_0/block0/conv1", "forward"), "level 0"),
        (Place("upsample_2/conv", "backward"), "level 2"),
        (Place("join_1", "backward"), "level 1"),
        (Place("bottom/block0", "forward"), "bottom"),
        (Place("conv2_block1_out", "forward"), "conv2_block1_out"),
        (Place("adam", "update"), "optimizer"),
        (Place(None, "forward"), "other"),
    ],
)
def test_levels_are_counted_from_the_full_resolution(place, level):
    assert place.level == level
