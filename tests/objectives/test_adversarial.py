"""pix2pix: what each side pays, and how much of the image one answer of the discriminator sees."""

import keras
import numpy as np
import pytest
from keras import ops

from unetkit.errors import UserError
from unetkit.models import initialize, patch_gan
from unetkit.objectives import Adversarial
from unetkit.objectives.adversarial import fake_loss, fooling_loss, real_loss

LOGITS = np.array([[-2.0, 0.5], [3.0, 0.0]], np.float32)


def numbers(function, loss):
    return ops.convert_to_numpy(function(ops.convert_to_tensor(LOGITS), loss))


def test_losses_are_those_of_the_papers():
    sigmoid = 1 / (1 + np.exp(-LOGITS))
    expected = {
        ("vanilla", real_loss): -np.log(sigmoid),
        ("vanilla", fake_loss): -np.log(1 - sigmoid),
        ("vanilla", fooling_loss): -np.log(sigmoid),
        ("least_squares", real_loss): (LOGITS - 1) ** 2,
        ("least_squares", fake_loss): LOGITS**2,
        ("least_squares", fooling_loss): (LOGITS - 1) ** 2,
        ("hinge", real_loss): np.maximum(0, 1 - LOGITS),
        ("hinge", fake_loss): np.maximum(0, 1 + LOGITS),
        ("hinge", fooling_loss): -LOGITS,
    }
    for (loss, function), values in expected.items():
        np.testing.assert_allclose(numbers(function, loss), values.mean(axis=1), rtol=1e-5, err_msg=f"{loss} {function.__name__}")


@pytest.mark.parametrize("field", [16, 34, 70])
def test_one_answer_sees_as_many_pixels_as_asked_for(field):
    """The gradient of one answer in the middle of a large image, by the image: where it is not zero."""
    import tensorflow as tf

    size = 128
    judge = patch_gan((size, size, 1), receptive_field=field, channels=2, norm="none")
    initialize(judge, 0)
    x = tf.constant(np.random.default_rng(0).normal(size=(1, size, size, 1)).astype(np.float32))
    with tf.GradientTape() as tape:
        tape.watch(x)
        answers = judge(x)
        one = answers[0, answers.shape[1] // 2, answers.shape[2] // 2, 0]
    seen = np.abs(tape.gradient(one, x).numpy()[0, :, :, 0])
    rows, columns = np.flatnonzero(seen.sum(axis=1)), np.flatnonzero(seen.sum(axis=0))
    assert rows[-1] - rows[0] + 1 == columns[-1] - columns[0] + 1 == field


def test_the_total_is_the_adversarial_loss_and_the_weighted_distance():
    image = keras.Input((4, 4, 1))
    goal = Adversarial(keras.Model(image, image), keras.Model(pair := keras.Input((4, 4, 2)), pair[..., :1]), "hinge", l1_weight=10.0)
    rng = np.random.default_rng(0)
    batch = {name: rng.normal(size=(3, 4, 4, 1)).astype(np.float32) for name in ("input", "target")}
    losses, parts = goal.losses(lambda role, x: goal.networks[role](x), batch, {})
    distance = np.abs(batch["input"] - batch["target"]).mean(axis=(1, 2, 3))
    np.testing.assert_allclose(losses["model"], -batch["input"].mean(axis=(1, 2, 3)) + 10 * distance, rtol=1e-5)
    np.testing.assert_allclose(parts["l1"], distance, rtol=1e-5)
    assert set(losses) == set(goal.networks) and set(parts) == {"loss", "l1", "adversarial", "discriminator"}


def test_what_does_not_exist_is_refused():
    with pytest.raises(UserError, match="receptive_field=64 is none of 16, 34, 70, 142, 286"):
        patch_gan((64, 64, 3), receptive_field=64)
    image = keras.Input((4, 4, 1))
    with pytest.raises(ValueError, match="known are vanilla, least_squares, hinge"):
        Adversarial(keras.Model(image, image), keras.Model(image, image), "wasserstein")
