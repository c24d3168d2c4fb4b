"""Packed levels: the same network, weights, outputs and gradients, in another layout."""

import os
import re
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import original_records as records
import packed_pairs as pairs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unetkit.blocks import Block, ConvBlock, Downsample
from unetkit.blocks.packed import Packed, pack, unpack
from unetkit.blocks.packing import Layout, best_shift, order
from unetkit.errors import UserError
from unetkit.models import UNet
from unetkit.objectives import Translation

TESTS = Path(__file__).parents[1]
sides = st.sampled_from([1, 2, 3, 4])


@pytest.mark.parametrize("number", range(len(pairs.CASES)))
def test_a_packed_network_computes_and_learns_what_the_plain_one_does(number):
    kind, packing, arguments = pairs.CASES[number]
    pairs.check(packing, (8, 8, 3), kind, training=True, **arguments)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(
    blocks=st.tuples(st.tuples(sides, sides), st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([1, 2, 3]))),
    kernel_size=st.sampled_from([1, 3, 5]),
    down=st.sampled_from(["max_pool", "strided_conv"]),
    up=st.sampled_from(["transposed_conv", "nearest_conv"]),
    up_kernel_size=st.sampled_from([2, 3, 4]),
    residual=st.sampled_from(["none", "add", "concat"]),
    kind=st.sampled_from(["random", "constant", "half"]),
)
def test_any_blocks_at_any_level_compute_the_same(blocks, kernel_size, down, up, up_kernel_size, residual, kind):
    how = {"down": down, "up": up, "up_kernel_size": up_kernel_size, "residual": residual, "kernel_size": kernel_size}
    pairs.check(blocks, (12, 12, 2), kind, levels=(3, 4), norm="none", activation="leaky_relu", **how)


def test_jax_computes_packed_what_it_does_plain():
    path = f"{TESTS / 'models'}:{os.environ.get('PYTHONPATH', '')}"
    env = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": path, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    run = subprocess.run([sys.executable, pairs.__file__], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("path", records.RECORDS, ids=lambda path: path.stem)
def test_the_original_records_hold_for_a_packed_network(path):
    records.check_record(path, packing=[[2, 4], [2, 2], [1, 2]])


@given(block=st.tuples(sides, sides), shift=st.booleans())
@settings(max_examples=20, deadline=None)
def test_unpacking_undoes_packing(block, shift):
    x = np.random.default_rng(0).normal(size=(2, 12, 24, 3)).astype("float32")
    packed = pack(keras.ops.convert_to_tensor(x), block, [min(1, r - 1) * shift for r in block])
    assert packed.array.shape[-1] == packed.layout.lanes == 3 * block[0] * block[1]
    assert packed.image == (12, 24)
    assert np.array_equal(unpack(packed), x)


@given(block=st.tuples(sides, sides, sides))
@settings(deadline=None)
def test_every_pixel_of_a_block_has_lanes_of_its_own(block):
    assert sorted(order(block)) == list(np.ndindex(block))


def test_a_lane_holds_the_pixel_that_the_order_says():
    x = np.arange(4 * 8, dtype="float32").reshape(1, 4, 8, 1)
    array = np.asarray(pack(keras.ops.convert_to_tensor(x), (2, 4)).array)
    for lane, (row, column) in enumerate(order((2, 4))):
        assert array[0, 1, 1, lane] == x[0, 2 + row, 4 + column, 0]


def test_shifted_cells_save_taps_only_where_a_block_has_two_pixels():
    assert best_shift((2, 4), (3, 3)) == (1, 1)
    assert best_shift((1, 2), (3, 3)) == (0, 1)
    assert best_shift((2, 2), (1, 1)) == (0, 0)
    assert best_shift((2, 4), (5, 5)) == (0, 2)  # five pixels reach three blocks of two in any case


class Doubled(Block):
    """A block that knows nothing of packing."""

    def __init__(self, channels, **settings):
        super().__init__(channels, **settings)
        self.conv = keras.layers.Conv2D(self.channels, 3, padding="same", name="conv", dtype=self.dtype_policy)

    def transform(self, x, training):
        return 2 * self.conv(x)


class Edged(ConvBlock):
    """Changes what a block does that can be packed, so that it itself cannot."""

    def transform(self, x, training):
        return super().transform(x[:, ::-1], training)


class Means(Downsample):
    """A way down that knows nothing of packing."""

    def __init__(self, channels, **settings):
        super().__init__(channels, **settings)
        self.pool = keras.layers.AveragePooling2D(2, name="pool")

    def shrink(self, x):
        return self.pool(x)


@pytest.mark.parametrize("block", [Doubled, Edged])
def test_a_block_that_does_not_take_packed_maps_is_given_images(block):
    assert ConvBlock.packs() and not block.packs()
    pairs.check([[2, 2], [1, 2]], (8, 8, 3), levels=(4, 6), block=block, down=Means, residual="concat", norm="none", blocks=2)


def test_the_block_of_the_page_computes_the_same_packed():
    page = (TESTS.parent / "docs" / "lane-packing.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(# my_packed_block.py\n.*?)^```", page, re.S | re.M)
    names = {"__name__": "my_packed_block"}
    exec(code, names)
    pairs.check([[2, 2]], (8, 8, 3), training=True, levels=(4, 6), block=names["OneConv"], norm="batch")


def test_losses_over_pixels_are_taken_from_packed_images():
    model = UNet((16, 16, 3), levels=(4, 6), packing=((2, 2),))
    batch = {name: keras.ops.convert_to_tensor(pairs.images((16, 16, 3), "random")) for name in ("input", "target")}
    found = {}
    for loss in ("l1", "psnr", "ssim_l1"):
        goal = Translation(model, loss)
        assert bool(goal.views) is (loss != "ssim_l1")
        plain = Translation(model, loss)
        plain.views = {}
        for one in (goal, plain):
            losses, _ = one.losses(lambda role, x, one=one: one.views.get(role, model)(x), batch, {})
            found[loss, one is goal] = np.asarray(losses["model"])
        ready = goal.prepare({name: np.asarray(value) for name, value in batch.items()})
        losses, _ = goal.losses(lambda role, x, one=goal: one.views.get(role, model)(x), ready, {})
        assert np.allclose(found[loss, True], found[loss, False], rtol=1e-5)
        assert np.allclose(losses["model"], found[loss, True], rtol=1e-6)


def test_a_block_without_packing_refuses_a_layout():
    with pytest.raises(UserError, match="define transform_packed in the class itself"):
        Edged(4, layout=Layout((2, 2), (4,)))


def test_a_level_that_a_block_does_not_divide_stays_plain_and_says_so():
    with pytest.warns(UserWarning, match=r"packing\[1\]: blocks of 2 x 4 pixels do not divide the 6 x 6 of this level, which stays plain"):
        model = UNet((12, 12, 3), levels=(4, 6), packing=[[2, 4], [2, 4]])
    assert model.get_layer("down_0").layout.block == (2, 4)
    assert model.get_layer("bottom").layout is None


@pytest.mark.parametrize(
    ("packing", "message"),
    [
        ([[2, 2]] * 3, "packing: 3 blocks for 2 levels; leave out the last 1"),
        ([[2]], r"packing\[0\]: \[2\] must be 2 numbers, pixels per axis \(height, width\)"),
        ([[2, 0]], r"packing\[0\]=0 must be a whole number, 1 or more"),
    ],
)
def test_a_packing_that_cannot_be_is_refused(packing, message):
    with pytest.raises(UserError, match=message):
        UNet((8, 8, 3), levels=(4, 6), packing=packing)


def test_a_saved_packed_network_opens_again(tmp_path):
    plain, packed = pairs.pair([[2, 2], [1, 2]], (8, 8, 3), levels=(4, 6), residual="concat")
    packed.save(tmp_path / "packed.keras")
    opened = keras.models.load_model(tmp_path / "packed.keras")
    assert opened.packing == ((2, 2), (1, 2))
    x = pairs.images((8, 8, 3), "random")
    assert np.abs(opened(x) - plain(x)).max() < pairs.OUTPUT


def test_signals_are_packed_along_their_one_axis():
    arguments = {"levels": (4, 6), "norm": "group", "up": "transposed_conv", "residual": "add"}
    pairs.check([[4], [2]], (16, 3), training=True, **arguments)


def test_packing_is_the_same_under_bfloat16_up_to_its_rounding():
    plain, packed = pairs.pair([[2, 4], [1, 2]], (8, 8, 3), levels=(4, 6), dtype="mixed_bfloat16")
    x = pairs.images((8, 8, 3), "random")
    expected, found = np.asarray(plain(x)), np.asarray(packed(x))
    assert found.dtype == np.float32
    assert np.linalg.norm(found - expected) < 0.05 * np.linalg.norm(expected)


def test_a_packed_map_knows_its_image():
    x = Packed(np.zeros((1, 5, 3, 8)), Layout((2, 4), (1,), (1, 0)))
    assert x.image == (8, 12)
