"""Metrics over a whole split, the trivial answers, and what is refused."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from unetkit.errors import UserError, WorkError
from unetkit.evaluate import baselines, evaluate, score
from unetkit.evaluate.score import with_channels


class Split:
    """Arrays as a split: in order, the last batch filled up with its last sample."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets

    def __len__(self):
        return len(self.inputs)

    def every(self, batch):
        for start in range(0, len(self), batch):
            chosen = np.minimum(np.arange(start, start + batch), len(self) - 1)
            yield {"input": self.inputs[chosen], "target": self.targets[chosen]}, min(batch, len(self) - start)


def constants(values, channels=3, side=12):
    return np.repeat(np.asarray(values, np.float32), side * side * channels).reshape(len(values), side, side, channels)


def test_the_ragged_last_batch_counts_once_and_in_order():
    """Ten distinct grey levels in batches of 8: the mean over ten, not over sixteen."""
    levels = np.linspace(-1, 1, 10)
    split = Split(constants(levels), constants(np.zeros(10)))
    seen = []

    def predict(inputs):
        assert inputs.shape == (8, 12, 12, 3), "every call has the same shape"
        seen.extend(inputs[:, 0, 0, 0].tolist())
        return inputs

    found = score(predict, split, 8)
    assert found["l1"] == pytest.approx(np.abs(levels / 2).mean(), rel=1e-6)
    np.testing.assert_allclose(seen[:10], levels, rtol=1e-6)


@pytest.mark.parametrize("batch", [1, 3, 10, 64])
def test_the_batch_does_not_change_the_metrics(batch):
    chance = np.random.default_rng(0)
    split = Split(*(chance.uniform(-1, 1, (10, 16, 16, 3)).astype(np.float32) for _ in range(2)))
    expected = score(lambda x: x, split, 5)
    for name, value in score(lambda x: x, split, batch).items():
        assert value == pytest.approx(expected[name], rel=1e-12)


def test_the_shape_of_the_answer_and_the_trivial_answers_by_hand():
    # Training targets: one black, three white; their mean colour and mean image are 0.75 of the way to white.
    train = Split(constants([0, 0, 0, 0], 1), constants([-1, 1, 1, 1]))
    validation = Split(constants([-0.5, 0.5], 1), constants([0, 0]))
    found = evaluate(lambda x: np.zeros((*x.shape[:3], 3)), SimpleNamespace(train=train, validation=validation), 4)
    assert list(found) == ["images", "l1", "psnr", "ssim", "baselines"]
    assert found["images"] == 2 and found["l1"] == 0 and found["psnr"] == pytest.approx(100) and found["ssim"] == pytest.approx(1)
    assert list(found["baselines"]) == ["input", "mean_color", "mean_image"]
    for name, l1 in (("input", 0.25), ("mean_color", 0.25), ("mean_image", 0.25)):
        assert found["baselines"][name]["l1"] == pytest.approx(l1)
        assert found["baselines"][name]["psnr"] == pytest.approx(-20 * np.log10(0.25))
    json.dumps(found, allow_nan=False)


def test_mean_colour_and_mean_image_differ_where_the_set_has_structure():
    half = np.zeros((2, 12, 12, 3), np.float32)
    half[:, :6] = 1
    answers = baselines(Split(half, half), 2)
    np.testing.assert_allclose(answers["mean_image"](half), half)
    np.testing.assert_allclose(answers["mean_color"](half), np.full_like(half, 0.5))


def test_a_filled_up_batch_does_not_bend_the_mean():
    train = Split(constants([0, 0, 0]), constants([-1, -1, 1]))
    np.testing.assert_allclose(baselines(train, 2)["mean_color"](constants([0])), constants([-1 / 3]), rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "channels", "expected"),
    [
        ([0.5], 3, [0.5, 0.5, 0.5]),
        ([0.5], 4, [0.5, 0.5, 0.5, 1.0]),
        ([1.0, 0.0, -1.0], 1, [0.299 - 0.114]),
        ([1.0, 0.0, -1.0], 4, [1.0, 0.0, -1.0, 1.0]),
        ([1.0, 0.0, -1.0, 0.3], 3, [1.0, 0.0, -1.0]),
        ([1.0, 0.0, -1.0, 0.3], 1, [0.299 - 0.114]),
        ([1.0, 0.0, -1.0], 3, [1.0, 0.0, -1.0]),
    ],
)
def test_the_input_in_the_targets_channels(given, channels, expected):
    images = np.tile(np.asarray(given, np.float32), (2, 3, 4, 1))
    got = with_channels(images, channels)
    assert got.shape == (2, 3, 4, channels)
    np.testing.assert_allclose(got[1, 2, 3], expected, atol=1e-6)


def test_no_validation_images_is_an_error_that_names_the_key():
    train, none = Split(constants([0]), constants([0])), Split(constants([]), constants([]))
    with pytest.raises(UserError, match=r"data\.split\.validation leaves none"):
        evaluate(lambda x: x, SimpleNamespace(train=train, validation=none), 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_output_that_is_no_number_is_an_error_not_a_score(bad):
    split = Split(constants([0, 0]), constants([0, 0]))
    with pytest.raises(WorkError, match="values that are no numbers"):
        score(lambda x: np.full_like(x, bad), split, 2)


def test_a_bad_value_among_the_filling_does_not_matter():
    split = Split(constants([0, 0, 0]), constants([0, 0, 0]))

    def predict(inputs):
        out = inputs.copy()
        out[3:] = np.nan
        return out

    assert score(predict, split, 4)["l1"] == 0


def test_an_output_of_another_shape_is_an_error_not_a_broadcast():
    split = Split(constants([0, 0]), constants([0, 0]))
    with pytest.raises(UserError, match=r"outputs of \(12, 12, 1\), and the data's targets are \(12, 12, 3\)"):
        score(lambda x: x[..., :1], split, 2)


def test_signals_have_a_pooled_snr_and_the_answers_of_their_own():
    truth = np.zeros((4, 32, 1), np.float32)
    truth[:2] = 0.5  # half of the windows are silent
    noisy = truth + np.float32(0.05)
    split = Split(noisy, truth)
    figures = evaluate(lambda inputs: inputs - np.float32(0.025), SimpleNamespace(train=split, validation=split), 3)
    energy = 0.5 * 0.5**2
    assert figures["signals"] == 4 and set(figures) == {"signals", "l1", "psnr", "snr", "baselines"}
    assert figures["snr"] == pytest.approx(10 * np.log10(energy / 0.025**2), abs=1e-3)
    assert figures["baselines"]["input"]["snr"] == pytest.approx(10 * np.log10(energy / 0.05**2), abs=1e-3)
    assert figures["baselines"]["silence"]["snr"] == pytest.approx(0, abs=1e-6)
    assert figures["l1"] == pytest.approx(0.0125, abs=1e-6)
