"""Samplers with a network that knows the image: every one of them must find it."""

import keras
import numpy as np
import pytest
from keras import ops

from unetkit.objectives import Diffusion, Flow
from unetkit.objectives.processes import LEVELS, per_pixel, signal_share
from unetkit.objectives.samplers import table

IMAGE = np.random.default_rng(5).uniform(-1, 1, (1, 4, 4, 3)).astype(np.float32)
KINDS = [("flow", {"sampler": sampler}) for sampler in ("euler", "heun", "dpmpp_2m")]
KINDS += [("diffusion", {"prediction": "edm", "sampler": sampler}) for sampler in ("heun", "dpmpp_2m", "ddim")]
KINDS += [
    ("diffusion", {"prediction": prediction, "schedule": schedule, "sampler": sampler})
    for prediction, schedule in (("eps", "linear"), ("x0", "sigmoid"), ("v", "cosine"))
    for sampler in ("heun", "dpmpp_2m", "ddim")
]


def objective(kind, **args):
    image, time = keras.Input((4, 4, 3)), keras.Input(())
    x = keras.layers.Conv2D(3, 1)(image) + keras.layers.Dense(1)(keras.layers.Reshape((1, 1, 1))(time))
    args.setdefault("condition", "none")
    return {"flow": Flow, "diffusion": Diffusion}[kind](keras.Model([image, time], x), **args)


def oracle(goal, image, dtype):
    """Stands for a network that knows the exact noise in what it sees, and answers in `dtype`."""
    clean = ops.convert_to_tensor(image)

    def output(call, x, t, conditions):
        alpha, sigma = (per_pixel(scale, x) for scale in goal.process.scales(t))
        noise = (x - alpha * clean) / sigma
        return ops.cast(ops.cast(goal.process.target(clean, noise, t), dtype), "float32")

    goal.output = output
    return goal


@pytest.mark.parametrize(("dtype", "most"), [("float32", 1e-3), ("bfloat16", 1e-2)])
@pytest.mark.parametrize(("kind", "args"), KINDS, ids=[" ".join((kind, *args.values())) for kind, args in KINDS])
def test_the_exact_noise_leads_to_the_image(kind, args, dtype, most):
    goal = oracle(objective(kind, sampler_steps=12, **args), IMAGE, dtype)
    noise = np.random.default_rng(1).normal(size=IMAGE.shape).astype(np.float32)
    made = ops.convert_to_numpy(goal.predict(None, {"noise": ops.convert_to_tensor(noise)}))
    assert np.abs(made - IMAGE).max() < most


@pytest.mark.parametrize("sampler", ["heun", "dpmpp_2m"])
def test_second_order_samplers_are_nearer_to_the_true_path(sampler):
    """Data from N(0, 0.5^2): the best estimate is linear in x, and the path's end is known: x_0 = x_T sigma_data / sqrt(sd^2 + s_max^2)."""

    def error(sampler):
        goal = objective("diffusion", sampler=sampler, sampler_steps=64, clip=False)
        goal.output = lambda call, x, t, conditions: ops.zeros_like(x)  # F = 0 is D = c_skip x, the best there is
        noise = np.ones((1, 4, 4, 3), np.float32)
        made = ops.convert_to_numpy(goal.predict(None, {"noise": ops.convert_to_tensor(noise)}))
        truth = 80.0 * 0.5 / np.sqrt(0.25 + 80.0**2)
        return abs(float(made[0, 0, 0, 0]) - truth)

    assert error(sampler) < 0.2 * error("ddim")


@pytest.mark.parametrize("prediction", ["eps", "x0", "v"])
@pytest.mark.parametrize("schedule", ["cosine", "linear", "sigmoid"])
def test_target_and_estimate_are_each_others_inverse(prediction, schedule):
    goal = objective("diffusion", prediction=prediction, schedule=schedule)
    t = ops.convert_to_tensor(np.array([0.0, 300.0, 600.0, 900.0], np.float32))
    rng = np.random.default_rng(0)
    clean, noise = (ops.convert_to_tensor(rng.normal(size=(4, 4, 4, 3)).astype(np.float32)) for _ in range(2))
    alpha, sigma = (per_pixel(scale, clean) for scale in goal.process.scales(t))
    found = goal.process.clean(alpha * clean + sigma * noise, goal.process.target(clean, noise, t), t)
    np.testing.assert_allclose(ops.convert_to_numpy(found), ops.convert_to_numpy(clean), atol=2e-3)


def test_schedules_are_monotone_and_kept_in_float32():
    for schedule in ("cosine", "linear", "sigmoid"):
        share = signal_share(schedule)
        assert share.shape == (LEVELS,) and share.dtype == np.float64 and (np.diff(share) <= 0).all()
        assert 0 < share[-1] < 0.01 and share[0] > 0.99
        alpha, sigma = objective("diffusion", prediction="v", schedule=schedule).process.scales(ops.convert_to_tensor(np.float32([0, 999])))
        assert keras.backend.standardize_dtype(alpha.dtype) == "float32"
        np.testing.assert_allclose(ops.convert_to_numpy(alpha) ** 2 + ops.convert_to_numpy(sigma) ** 2, 1, atol=1e-6)


def test_edm_weights_are_those_of_the_paper():
    """lambda(sigma) of table 1 is 1 / c_out^2, so that the error of F has weight 1; soft_min_snr is k-diffusion's at sigma_data 0.5."""
    process = objective("diffusion").process
    sigma = np.array([0.01, 0.5, 3.0, 50.0], np.float32)
    c_out = ops.convert_to_numpy(process.error_scale(ops.convert_to_tensor(sigma)))
    np.testing.assert_allclose(1 / c_out**2, (sigma**2 + 0.25) / (sigma * 0.5) ** 2, rtol=1e-5)
    from unetkit.objectives.generative import clean_weight

    weight = ops.convert_to_numpy(clean_weight(ops.convert_to_tensor(1 / sigma**2), "soft_min_snr", 4.0)) * c_out**2
    np.testing.assert_allclose(weight, (sigma * 0.5) ** 2 / (sigma**2 + 0.25) ** 2, rtol=1e-4)


def test_clipping_is_an_option():
    noise = {"noise": ops.ones((1, 4, 4, 3))}
    goals = [objective("flow", clip=clip) for clip in (True, False)]
    for goal in goals:
        goal.output = lambda call, x, t, conditions: -5.0 * ops.ones_like(x)
    clipped, free = (float(ops.convert_to_numpy(goal.predict(None, noise)).max()) for goal in goals)
    assert clipped <= 1.0 < free


def test_what_does_not_exist_is_refused():
    grid = objective("flow").process.grid(3)
    with pytest.raises(ValueError, match="received 'ancestral', known are euler"):
        table("ancestral", grid, True)
    for args, words in (
        ({"guidance": 2.0}, "needs a network that also works without its condition"),
        ({"weighting": "p2"}, "known are none, min_snr"),
    ):
        with pytest.raises(ValueError, match=words):
            objective("flow", **args)
    with pytest.raises(ValueError, match="known are eps, x0 and v"):
        objective("diffusion", prediction="score")
    with pytest.raises(ValueError, match="known are cosine, linear and sigmoid"):
        objective("diffusion", prediction="v", schedule="secant")
