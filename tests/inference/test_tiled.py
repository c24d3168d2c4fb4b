"""`Tiled`: any size through one shape, without a seam where that is possible, and saying so where it is not."""

import itertools
import resource

import keras
import numpy as np
import pytest

from unetkit.compiled import compiled
from unetkit.errors import UserError, WorkError
from unetkit.inference import Tiled, seams
from unetkit.models import UNet, initialize

SIDES = (1, 2, 15, 16, 17, 31, 32, 33, 40, 47, 48)


def identity(rank: int, channels: int = 1) -> keras.Model:
    return keras.Sequential([keras.Input((*(None,) * rank, channels)), keras.layers.Activation("linear")])


def unet(size, seed=0, **settings) -> UNet:
    model = UNet(size, **{"levels": (3, 4, 4), "norm": "none", "activation": "leaky_relu", "output_activation": "linear"} | settings)
    initialize(model, seed)
    return model


def image(*shape, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@pytest.mark.parametrize("window", ["exact", "hann", "gaussian"])
@pytest.mark.parametrize("overlap", [0, 4, 8, 15])
def test_a_signal_through_nothing_comes_back_unmoved_at_every_length(window, overlap):
    tiled = Tiled(identity(1), 16, overlap=overlap, window=window)
    for length in range(1, 51):
        ramp = np.linspace(-1, 1, length, dtype="float32")[:, None]
        found = tiled(ramp)
        assert found.shape == ramp.shape and np.abs(found - ramp).max() < 1e-6


@pytest.mark.parametrize(("window", "overlap"), [("exact", 0), ("hann", 8), ("gaussian", (4, 15))])
def test_an_image_through_nothing_comes_back_unmoved_at_every_size(window, overlap):
    tiled = Tiled(identity(2, 2), 16, overlap=overlap, window=window)
    sizes = list(itertools.product(SIDES, SIDES))
    ramps = [np.stack(np.meshgrid(np.linspace(-1, 1, w), np.linspace(0, 1, h)), axis=-1).astype("float32") for h, w in sizes]
    for ramp, found in zip(ramps, tiled.map(ramps), strict=True):
        assert found.shape == ramp.shape and np.abs(found - ramp).max() < 1e-6


@pytest.mark.parametrize("down", ["max_pool", "strided_conv"])
def test_with_twice_the_radius_tiles_equal_one_pass_over_the_whole(down):
    whole = unet((160, 232, 3), down=down)
    tiled = Tiled(model := unet((120, 128, 3), down=down), batch=3)
    model.set_weights(whole.get_weights())
    radius = tiled.receptive.radius[0]
    assert tiled.window == "exact" and tiled.overlap == (2 * radius,) * 2 and tiled.plan((160, 232)).tiles == 6
    x = image(160, 232, 3)
    expected = compiled(whole)(x[None])[0]
    assert np.abs(tiled(x) - expected).max() < 1e-4 and np.abs(expected).max() > 0.1


def test_a_signal_in_tiles_equals_one_pass_over_the_whole():
    whole, model = unet((488, 1)), unet((128, 1))
    model.set_weights(whole.get_weights())
    x = image(488, 1)
    assert np.abs(Tiled(model)(x) - compiled(whole)(x[None])[0]).max() < 1e-4


def test_a_size_off_the_grid_differs_only_near_its_own_rim():
    whole, model = unet((192, 1)), unet((112, 1))
    model.set_weights(whole.get_weights())
    x = image(192, 1)
    difference = np.abs(Tiled(model)(x[:190]) - compiled(whole)(x[None])[0, :190])
    assert difference[:-28].max() < 1e-4 < difference[-28:].max(), "the whole saw pixels that the cut signal does not have"


def test_less_overlap_and_an_unaligned_grid_show_and_are_measured():
    whole, model = unet((256, 1), seed=3), unet((64, 1), seed=3)
    x = image(256, 1)
    reference = compiled(whole)(x[None])[0]
    exact = Tiled(model, overlap=52, window="exact")
    figures = {overlap: seams(Tiled(model, overlap=overlap, window="hann"), x, reference) for overlap in (0, 32)}
    assert np.abs(exact(x) - reference).max() < 1e-4
    assert figures[0]["border"] > figures[32]["border"] > 1e-6
    assert figures[0]["ratio"] > 3, "with no overlap the errors stand at the borders"
    assert seams(exact, x, reference)["border"] < 1e-5


@pytest.mark.parametrize(("tile", "levels"), [(64, 6), (4, 2)])
def test_a_stride_as_large_as_half_a_tile_has_borders_and_something_between(tile, levels):
    model = UNet((tile, 1), levels=(2,) * levels, norm="none", output_channels=1)
    figures = seams(Tiled(model, overlap=tile // 2, window="hann"), image(2 * tile, 1), np.zeros((2 * tile, 1), np.float32))
    assert figures["border"] > 0 and figures["interior"] > 0


def test_auto_warns_with_the_tile_that_would_be_exact():
    with pytest.warns(UserWarning, match=r"looks 26 pixels far, .* tiles of 64: .* A tile of 104 would be exact") as warned:
        tiled = Tiled(unet((64, 1)))
    assert warned[0].filename == __file__, "it points at the caller"
    assert (tiled.overlap, tiled.window) == ((32,), "hann")
    assert Tiled(unet((104, 1))).window == "exact"


def test_a_norm_over_the_image_is_named_as_what_cannot_be_tiled_exactly():
    model = unet((32, 1), norm="instance")
    with pytest.warns(UserWarning, match=r"down_0/block0/norm1 \(GroupNorm\) looks at a whole tile"):
        assert (Tiled(model).overlap, Tiled(model).window) == ((16,), "hann")
    with pytest.raises(UserError, match=r"window: exact cannot be: down_0/block0/norm1"):
        Tiled(model, overlap=8, window="exact")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tile": 16, "overlap": 16}, "overlap: 16 does not fit a tile of 16"),
        ({"tile": 16, "overlap": -1}, "overlap: -1 does not fit a tile of 16"),
        ({"tile": 16, "overlap": "half"}, "'half' is neither a number of pixels nor auto"),
        ({"tile": (16, 16)}, "has 2 numbers; this network has 1 axes"),
        ({"tile": 0}, "tile: 0 is no size; 1 is the least"),
        ({"tile": 16, "window": "triangle"}, "'triangle' is none of auto, exact, hann, gaussian"),
        ({}, "takes any size, so it must be said"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_work(settings, message):
    with pytest.raises(UserError, match=message):
        Tiled(identity(1), **settings)


def test_a_tile_that_the_network_was_not_built_for_is_refused():
    with pytest.raises(UserError, match="was built for 64 and takes no other size, received 32"):
        Tiled(unet((64, 1)), 32)
    free = keras.Sequential([keras.Input((None, 1)), keras.layers.MaxPooling1D(4), keras.layers.UpSampling1D(4)])
    with pytest.raises(UserError, match=r"tile: 18 is no multiple of 4, the network's total stride; the nearest: 16 and 20"):
        Tiled(free, 18)
    with pytest.raises(UserError, match=r"window: exact needs an overlap of 6, .* tile of at least 12; overlap is 4 and the tile 16"):
        Tiled(free, 16, overlap=4, window="exact")


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((0, 1), "f4"), r"shape \(0, 1\): expected \(w, c\), none of them 0"),
        (np.zeros((5, 5, 1), "f4"), r"shape \(5, 5, 1\): expected \(w, c\)"),
        (np.zeros((5, 2), "f4"), "has 2 channels; the network takes 1"),
        (np.array([[0.0], [np.nan]], "f4"), r"values that are no numbers \(NaN or infinite\)"),
    ],
)
def test_an_input_that_cannot_be_used_is_refused(x, message):
    with pytest.raises(UserError, match=message):
        Tiled(identity(1), 16)(x)


def test_every_size_goes_through_one_trace():
    traces = []

    class Counted(keras.layers.Layer):
        def call(self, x):
            traces.append(x.shape)
            return x

    model = keras.Sequential([keras.Input((None, None, 1)), Counted()])
    tiled = Tiled(model, 32, overlap=8, window="hann", batch=3)
    traces.clear()
    for height, width in ((1, 1), (7, 130), (64, 64), (65, 97), (200, 33)):
        assert tiled(image(height, width, 1)).shape == (height, width, 1)
    assert traces == [(3, 32, 32, 1)]
    signals = Tiled(keras.Sequential([keras.Input((None, 1)), Counted()]), 32, overlap=8, window="hann", batch=3)
    traces.clear()
    for length in (1, 31, 32, 33, 200):
        assert signals(image(length, 1)).shape == (length, 1)
    assert traces == [(3, 32, 1)]


def test_small_inputs_share_batches():
    calls = []
    tiled = Tiled(identity(1), 16, batch=4)
    run = tiled._run
    tiled._run = lambda tiles: calls.append(len(tiles)) or run(tiles)
    inputs = [image(length, 1, seed=length) for length in (3, 16, 40, 9, 1, 2)]
    for x, found in zip(inputs, tiled.map(inputs), strict=True):
        np.testing.assert_allclose(found, x, atol=1e-6)
    assert calls == [4, 4]


def test_a_large_output_lives_in_a_file_and_a_full_disk_is_told(tmp_path):
    tiled = Tiled(identity(2), 16, memory_bytes=4 * 40 * 40, scratch=tmp_path)
    assert not isinstance(tiled(image(40, 40, 1)), np.memmap)
    x = image(41, 40, 1)
    found = tiled(x)
    assert isinstance(found, np.memmap) and np.abs(found - x).max() < 1e-6
    assert not list(tmp_path.iterdir()), "the file has no name to be left behind"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(WorkError, match=r"has no room for an output of .* GiB: File too large"):
            tiled(x)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
