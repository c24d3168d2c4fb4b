"""KID and FID: closed forms, definitions written out, identities, errors."""

import numpy as np
import pytest

from unetkit.errors import UserError, WorkError
from unetkit.evaluate.distribution import FEW_FOR_KID, few_samples, fid, kid


def normal(n, d=4, shift=0.0, seed=0):
    return np.random.default_rng(seed).normal(shift, 1.0, (n, d))


def whitened(n, d):
    """Samples whose mean is exactly 0 and whose covariance is exactly the identity."""
    x = normal(n, d)
    x = x - x.mean(0)
    return x @ np.linalg.inv(np.linalg.cholesky(np.cov(x, rowvar=False))).T


def mmd(x, y):
    """Equation 4 of Binkowski et al. 2018, pair by pair."""

    def k(a, b):
        return (a @ b / len(a) + 1) ** 3

    n, m = len(x), len(y)
    within_x = sum(k(x[i], x[j]) for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    within_y = sum(k(y[i], y[j]) for i in range(m) for j in range(m) if i != j) / (m * (m - 1))
    return within_x + within_y - 2 * sum(k(a, b) for a in x for b in y) / (n * m)


def test_kid_and_its_jackknife_are_their_definitions():
    x, y = normal(7, 3), normal(5, 3, shift=2.0, seed=1)
    estimate, error = kid(x, y)
    assert estimate == pytest.approx(mmd(x, y))
    left = [[mmd(np.delete(x, i, 0), y) for i in range(7)], [mmd(x, np.delete(y, i, 0)) for i in range(5)]]
    assert error == pytest.approx(np.sqrt(sum((len(each) - 1) / len(each) * np.square(each - np.mean(each)).sum() for each in left)))


def test_fid_of_a_shift_is_its_square():
    x = normal(50, 8)
    assert fid(x, x + np.arange(8)) == pytest.approx(np.square(np.arange(8)).sum())


def test_fid_of_known_covariances_is_the_closed_form():
    x, scale = whitened(200, 3), np.array([1.0, 2.0, 5.0])
    assert fid(x, x * scale) == pytest.approx(np.square(scale - 1).sum())
    turn = np.linalg.qr(normal(3, 3, seed=2))[0]
    assert fid(x @ turn, (x * scale) @ turn) == pytest.approx(np.square(scale - 1).sum())


@pytest.mark.parametrize(("n", "d"), [(3, 108), (40, 4), (2000, 4)])
def test_a_set_and_itself_have_no_distance(n, d):
    x = normal(n, d)
    assert kid(x, x)[0] == 0
    assert fid(x, x) == pytest.approx(0, abs=1e-3)


def test_kid_does_not_depend_on_order_and_its_error_tells_like_sets_from_unlike_ones():
    x, like, unlike = normal(400, 8), normal(300, 8, seed=1), normal(300, 8, shift=0.3, seed=1)
    near, error = kid(x, like)
    assert near < 3 * error
    far, error = kid(x, unlike)
    assert far > 5 * error
    assert kid(x[::-1], unlike)[0] == pytest.approx(far)


def test_few_samples_are_told_with_the_numbers():
    assert few_samples(500, 1000, 100) == []
    assert few_samples(FEW_FOR_KID, 150, 99) == ["FID of 100 images with 99 features is biased upwards; 198 or more are wanted. KID is not"]
    short = few_samples(5, 1000, 8)
    assert "KID of 5 images is uncertain" in short[0]
    assert "FID of 5 images with 8 features is mostly bias: the covariance has rank 4" in short[1]


@pytest.mark.parametrize("distance", [kid, fid])
def test_what_cannot_be_compared_is_refused(distance):
    with pytest.raises(UserError, match="2 and 9 images are too few"):
        distance(normal(2), normal(9))
    with pytest.raises(UserError, match="of one width for both sets"):
        distance(normal(9, 4), normal(9, 5))
    with pytest.raises(WorkError, match="no numbers"):
        distance(normal(9), np.full((9, 4), np.nan))
