"""What a convolution leaves unused of the matrix unit, by hand-computed cases."""

import pytest

from unetkit.tpu.fill import matrix_fill
from unetkit.tpu.hlo import Convolution


def sizes(**changes) -> Convolution:
    same = {"batch": 16, "features": 128, "outputs": 128, "rows": 16, "meetings": 90, "positions": 100, "taps": 1}
    return Convolution(**{**same, "dilated": False, "is_gradient_of_kernel": False, **changes})


def test_full_channels_lose_nothing():
    assert matrix_fill(sizes(), 128) == (1.0, None)


@pytest.mark.parametrize(
    ("changes", "side", "share"),
    [
        ({"features": 64}, 128, 0.5),
        ({"features": 64, "outputs": 64}, 128, 0.25),
        ({"features": 192}, 128, 0.75),
        ({"features": 128, "outputs": 128}, 256, 0.25),
        ({"features": 3}, 128, 3 / 128),
    ],
)
def test_narrow_channels_leave_a_side_idle(changes, side, share):
    found, why = matrix_fill(sizes(**changes), side)
    assert found == pytest.approx(share)
    assert f"{changes['features']} channels in" in why


def test_packed_kernel_positions_can_fill_the_side_of_the_inputs():
    assert matrix_fill(sizes(features=64, taps=9), 128)[0] == pytest.approx(1.0)
    assert matrix_fill(sizes(features=3, taps=9), 128)[0] == pytest.approx(27 / 128)
    assert matrix_fill(sizes(outputs=64, taps=9), 128)[0] == pytest.approx(0.5)


def test_zeros_of_a_transposed_convolution_are_multiplied_too():
    share, why = matrix_fill(sizes(dilated=True, meetings=25, positions=100, outputs=64), 128)
    assert share == pytest.approx(0.5 * 0.25)
    assert "75% of the products have a zero" in why and "64 channels out" in why


def test_of_a_kernels_gradient_both_channel_counts_come_out():
    share, why = matrix_fill(sizes(features=16, rows=64, outputs=128, is_gradient_of_kernel=True), 128)
    assert share == pytest.approx(0.5)
    assert "64 channels in" in why and "16" not in why
