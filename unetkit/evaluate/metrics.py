"""L1, PSNR and SSIM per image, L1, PSNR and SNR of signals, in NumPy and float64.

One path for every image, ours and the truth: clipped to [-1, 1], then moved to [0, 1]. All three metrics are of that
range (a data range of 1), so L1 is a share of the full range and a grey level of an 8-bit image is 1/255. A signal's SNR is of
its values as they are, in [-1, 1], and pooled: the energy of all targets over that of all errors. A mean of the decibels of
single windows would be that of the silent ones among them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# The PSNR of equal images is infinite, and one such pair would make the mean over a set infinite. The squared error is
# taken as at least this, so that PSNR ends at 100 dB: half a step of 16-bit images is 107 dB, of 8-bit ones 59 dB.
LEAST_SQUARED_ERROR = 1e-10

# Z. Wang, A. C. Bovik, H. R. Sheikh, E. P. Simoncelli: Image quality assessment: from error visibility to structural
# similarity, IEEE Transactions on Image Processing 13(4), 2004, section III.C: an 11 x 11 Gaussian window with a standard
# deviation of 1.5 pixels, C1 = (0.01 L)^2, C2 = (0.03 L)^2.
SSIM_WINDOW = 11
SSIM_SIGMA = 1.5
SSIM_C1 = 0.01**2
SSIM_C2 = 0.03**2


def to_unit_range(images: np.ndarray) -> np.ndarray:
    """Images in [-1, 1] -> float64 in [0, 1]; what lies outside is clipped."""
    return (np.clip(np.asarray(images, np.float64), -1.0, 1.0) + 1.0) / 2.0


def per_sample(values: np.ndarray) -> np.ndarray:
    """Mean over everything but the batch, (b, ...) -> (b,)."""
    return values.mean(axis=tuple(range(1, values.ndim)))


def l1(outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Mean absolute error: (b, ..., c) twice, in [0, 1] -> (b,)."""
    return per_sample(np.abs(outputs - targets))


def psnr(outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Peak signal-to-noise ratio in dB: (b, ..., c) twice, in [0, 1] -> (b,), at most 100."""
    squared = per_sample(np.square(outputs - targets))
    return -10.0 * np.log10(np.maximum(squared, LEAST_SQUARED_ERROR))


def ssim(outputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Structural similarity (Wang et al. 2004): (b, h, w, c) twice, in [0, 1] -> (b,), the mean over pixels and channels.

    Only windows that lie inside the image count. An image with a side below 11 pixels gets the largest odd window that
    fits it, with the same standard deviation.
    """
    side = min(SSIM_WINDOW, *outputs.shape[1:3])
    window = gaussian_window(side - 1 + side % 2)
    mean_x, mean_y = blur(outputs, window), blur(targets, window)
    variance_x = blur(outputs * outputs, window) - mean_x * mean_x
    variance_y = blur(targets * targets, window) - mean_y * mean_y
    covariance = blur(outputs * targets, window) - mean_x * mean_y
    # Equation 13 of the paper.
    similarity = ((2 * mean_x * mean_y + SSIM_C1) * (2 * covariance + SSIM_C2)) / (
        (mean_x * mean_x + mean_y * mean_y + SSIM_C1) * (variance_x + variance_y + SSIM_C2)
    )
    return similarity.mean(axis=(1, 2, 3))


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {"l1": l1, "psnr": psnr, "ssim": ssim}
SIGNAL_METRICS = {"l1": l1, "psnr": psnr}  # a mean over the samples each; SNR is pooled, see `snr`


def snr(energy: float, error_energy: float) -> float:
    """Signal-to-noise ratio in dB from the mean squares of targets and errors, both as they are, within -100 to 100."""
    return float(10.0 * np.log10(max(energy, LEAST_SQUARED_ERROR) / max(error_energy, LEAST_SQUARED_ERROR)).clip(-100, 100))


def gaussian_window(size: int) -> np.ndarray:
    """(size,) weights of sum 1; the outer product with itself is the two-dimensional window."""
    offsets = np.arange(size) - (size - 1) / 2
    weights = np.exp(-0.5 * (offsets / SSIM_SIGMA) ** 2)
    return weights / weights.sum()


def blur(images: np.ndarray, window: np.ndarray) -> np.ndarray:
    """Weighted mean under the window at every place where it fits: (b, h, w, c) -> (b, h - n + 1, w - n + 1, c)."""
    n = len(window)
    rows, columns = images.shape[1] - n + 1, images.shape[2] - n + 1
    down = sum(weight * images[:, i : i + rows] for i, weight in enumerate(window))
    return sum(weight * down[:, :, i : i + columns] for i, weight in enumerate(window))
