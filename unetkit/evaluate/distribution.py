"""Distances between two sets of features, in NumPy and float64: KID and FID."""

from __future__ import annotations

import numpy as np

from unetkit.errors import UserError, WorkError

LEAST_SAMPLES = 3  # a jackknife leaves one of them out, and the estimate without it needs pairs
FEW_FOR_KID = 100
ROWS_AT_ONCE = 1024  # of the kernel matrix


def kid(real: np.ndarray, made: np.ndarray) -> tuple[float, float]:
    """Kernel inception distance: unbiased squared MMD under k(x, y) = (x.y / d + 1)^3 (Binkowski et al. 2018, eq. 4 and section 4).

    Over all pairs, not over random subsets, so that the same two sets give the same number. An unbiased estimate of a small
    distance may come out below 0; it is then told as 0.

    Args:
        real: (n, d) features, n of 3 or more.
        made: (m, d) features, m of 3 or more.

    Returns:
        (estimate, standard error). The error is the jackknife's, leaving out one image at a time of each set.

    Raises:
        UserError: too few samples, or sets of unlike width.
        WorkError: a feature is not finite.
    """
    real, made = checked(real, made)
    n, m = len(real), len(made)
    within_real, within_made = (kernel_rows(x, x)[0] - kernel(np.square(x).sum(1), x.shape[1]) for x in (real, made))
    of_real, of_made = kernel_rows(real, made)
    first, second, cross = within_real.sum(), within_made.sum(), of_real.sum()

    def estimate(first, n, second, m, cross):
        return first / (n * (n - 1)) + second / (m * (m - 1)) - 2 * cross / (n * m)

    without_real = estimate(first - 2 * within_real, n - 1, second, m, cross - of_real)
    without_made = estimate(first, n, second - 2 * within_made, m - 1, cross - of_made)
    variance = sum((len(each) - 1) * np.var(each) for each in (without_real, without_made))
    return max(0.0, float(estimate(first, n, second, m, cross))), float(np.sqrt(variance))


def fid(real: np.ndarray, made: np.ndarray) -> float:
    """Frechet distance of two Gaussians with the sets' means and covariances (Heusel et al. 2017, eq. 6).

    |mean1 - mean2|^2 + trace(C1 + C2 - 2 (C1 C2)^(1/2)). It is biased upwards, the more the fewer the samples.

    Args and Raises: as `kid`.
    """
    real, made = checked(real, made)
    shift = np.square(real.mean(0) - made.mean(0)).sum()
    first, second = (np.atleast_2d(np.cov(x, rowvar=False)) for x in (real, made))
    values, vectors = np.linalg.eigh(first)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T  # C1^(1/2); C1 C2 has the eigenvalues of C1^(1/2) C2 C1^(1/2)
    common = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ second @ root), 0)).sum()
    return max(0.0, float(shift + np.trace(first) + np.trace(second) - 2 * common))


def few_samples(n: int, m: int, width: int) -> list[str]:
    """What must be said of sets of n and m images with features of this width."""
    least, said = min(n, m), []
    if least < FEW_FOR_KID:
        said.append(f"KID of {least} images is uncertain: look at its standard error; {FEW_FOR_KID} or more are wanted")
    if least <= width:
        said.append(
            f"FID of {least} images with {width} features is mostly bias: the covariance has rank {least - 1} at most; "
            f"{2 * width} or more are wanted. KID has no such bias"
        )
    elif least < 2 * width:
        said.append(f"FID of {least} images with {width} features is biased upwards; {2 * width} or more are wanted. KID is not")
    return said


def checked(real: np.ndarray, made: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    real, made = np.asarray(real, np.float64), np.asarray(made, np.float64)
    if real.ndim != 2 or made.ndim != 2 or real.shape[1] != made.shape[1]:
        raise UserError(f"features are (images, width), of one width for both sets; received {real.shape} and {made.shape}")
    if min(len(real), len(made)) < LEAST_SAMPLES:
        raise UserError(f"{len(real)} and {len(made)} images are too few to compare sets; {LEAST_SAMPLES} of each are the least")
    if not (np.isfinite(real).all() and np.isfinite(made).all()):
        raise WorkError("the features hold values that are no numbers (NaN or infinite); distances of them mean nothing")
    return real, made


def kernel(products: np.ndarray, width: int) -> np.ndarray:
    return (products / width + 1.0) ** 3


def kernel_rows(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the kernel matrix over y, (n,), and over x, (m,), without ever holding all of it."""
    rows, columns = [], np.zeros(len(y))
    for start in range(0, len(x), ROWS_AT_ONCE):
        block = kernel(x[start : start + ROWS_AT_ONCE] @ y.T, x.shape[1])
        rows.append(block.sum(1))
        columns += block.sum(0)
    return np.concatenate(rows), columns
