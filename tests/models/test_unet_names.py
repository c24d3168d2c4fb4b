"""Names: by place, whatever the size of the image and whatever was built before."""

import numpy as np

from unetkit.models import UNet, initialize

LEVELS = (4, {"channels": 8, "blocks": 2, "attention": True}, 16)


def listing(size, **arguments):
    model = UNet((size, size, 3), levels=LEVELS, residual="add", norm="batch", down="strided_conv", dropout=0.1, **arguments)
    return [(weight.path, tuple(weight.shape)) for weight in model.weights]


def test_weights_carry_their_place():
    paths = [path for path, _ in listing(16)]
    assert len(set(paths)) == len(paths)
    for path in (
        "down_0/block0/conv1/kernel",
        "down_0/block0/norm1/moving_variance",
        "down_0/block0/shortcut/kernel",
        "downsample_0/conv/kernel",
        "down_1/block1/conv2/kernel",
        "down_1/attention/norm/gamma",
        "down_1/attention/query_key_value/kernel",
        "bottom/block0/conv1/kernel",
        "upsample_1/conv/bias",
        "up_1/block0/conv1/kernel",
        "up_0/block0/norm2/beta",
        "head/conv/kernel",
    ):
        assert path in paths
    places = list(dict.fromkeys(path.split("/")[0] for path in paths))
    assert places == ["down_0", "downsample_0", "down_1", "downsample_1", "bottom", "upsample_1", "up_1", "upsample_0", "up_0", "head"]


def test_names_and_shapes_do_not_depend_on_the_size_or_on_what_was_built_before():
    first = listing(16)
    UNet((8, 8, 1), levels=(4, 4))
    assert listing(32) == first == listing(16, name="another")


def test_weights_of_one_size_compute_the_same_at_another():
    """A net is built again for a larger image; where no edge is near, the outputs are those of the smaller one."""
    small, large = (UNet((size, size, 1), levels=(4, 8), norm="none", kernel_size=3) for size in (16, 32))
    initialize(small, seed=0)
    initialize(large, seed=0)
    x = np.random.default_rng(0).normal(size=(1, 32, 32, 1)).astype("float32")
    inside = np.array(small(x[:, :16, :16]))[:, :4, :4]
    assert np.allclose(np.array(large(x))[:, :4, :4], inside, atol=1e-6)
