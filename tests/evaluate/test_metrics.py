"""L1, PSNR and SSIM against scikit-image and against values worked out by hand."""

import numpy as np
import pytest
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from unetkit.evaluate import metrics

SHAPES = [(3, 64, 64, 3), (2, 31, 48, 1), (1, 11, 11, 4), (2, 12, 11, 3)]


def pair(shape, noise=0.2):
    chance = np.random.default_rng(sum(shape))
    first = chance.uniform(0, 1, shape)
    return first, np.clip(first + noise * chance.standard_normal(shape), 0, 1)


def theirs(a, b):
    return [
        structural_similarity(x, y, gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=1.0, channel_axis=-1)
        for x, y in zip(a, b, strict=True)
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("noise", [0.01, 0.3])
def test_ssim_is_scikit_images(shape, noise):
    a, b = pair(shape, noise)
    np.testing.assert_allclose(metrics.ssim(a, b), theirs(a, b), atol=1e-6, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_psnr_is_scikit_images(shape):
    a, b = pair(shape)
    np.testing.assert_allclose(
        metrics.psnr(a, b), [peak_signal_noise_ratio(x, y, data_range=1.0) for x, y in zip(a, b, strict=True)], atol=1e-9
    )


def test_values_by_hand():
    black, grey = np.zeros((1, 16, 16, 3)), np.full((1, 16, 16, 3), 0.5)
    assert metrics.l1(black, grey) == [0.5]
    np.testing.assert_allclose(metrics.psnr(black, grey), 20 * np.log10(2))
    # Flat images: only the luminance term of SSIM is left, C1 / (0.25 + C1).
    np.testing.assert_allclose(metrics.ssim(black, grey), 1e-4 / (0.25 + 1e-4))


def test_equal_images_have_a_finite_psnr():
    a, _ = pair((2, 16, 16, 3))
    np.testing.assert_allclose(metrics.psnr(a, a), 100.0)
    np.testing.assert_allclose(metrics.ssim(a, a), 1.0)
    assert (metrics.l1(a, a) == 0).all()


def test_each_image_has_its_own_value():
    a, b = pair((3, 20, 20, 3))
    b[1] = a[1]
    for name, function in metrics.METRICS.items():
        together = function(a, b)
        assert together.shape == (3,) and together.dtype == np.float64
        np.testing.assert_allclose(together, [function(a[i : i + 1], b[i : i + 1])[0] for i in range(3)], rtol=1e-12, err_msg=name)


@pytest.mark.parametrize(("side", "window"), [(10, 9), (9, 9), (4, 3), (2, 1), (1, 1)])
def test_images_smaller_than_the_window_get_the_largest_odd_one_that_fits(side, window):
    a, b = pair((1, side, 20, 3))
    # SSIM at one place, written out: weighted moments under a window laid over the top left corner.
    weights = np.exp(-0.5 * ((np.arange(window) - window // 2) / 1.5) ** 2)
    weights = np.outer(weights, weights) / weights.sum() ** 2
    x, y = a[0, :window, :window, 0], b[0, :window, :window, 0]
    mx, my = (weights * x).sum(), (weights * y).sum()
    vx, vy, vxy = (weights * (x - mx) ** 2).sum(), (weights * (y - my) ** 2).sum(), (weights * (x - mx) * (y - my)).sum()
    expected = (2 * mx * my + 1e-4) * (2 * vxy + 9e-4) / ((mx**2 + my**2 + 1e-4) * (vx + vy + 9e-4))
    np.testing.assert_allclose(metrics.ssim(a[:, :window, :window, :1], b[:, :window, :window, :1]), expected, rtol=1e-9)
    assert metrics.ssim(a, a) == pytest.approx(1.0) and metrics.ssim(a, b)[0] < 0.999


def test_what_lies_outside_the_range_is_clipped():
    np.testing.assert_array_equal(metrics.to_unit_range(np.array([-3.0, -1.0, 0.0, 1.0, 7.0], np.float32)), [0, 0, 0.5, 1, 1])
    assert metrics.to_unit_range(np.zeros(1, np.float16)).dtype == np.float64
