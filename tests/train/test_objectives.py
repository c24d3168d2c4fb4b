"""Flow, diffusion and GAN on both engines: every weighting trains, and the same weights give the same losses and pictures."""

import numpy as np
import pytest
from test_engines import probe, stop_workers  # noqa: F401  (a fixture)

CASES = [
    ("flow", {"weighting": "none", "condition": "none", "time": "logit_normal", "sampler": "heun"}),
    ("flow", {"weighting": "min_snr", "sampler": "dpmpp_2m"}),
    ("flow", {"weighting": "soft_min_snr", "condition": "class", "guidance": 2.0}),
    ("diffusion", {"weighting": "none", "condition": "image"}),
    ("diffusion", {"weighting": "min_snr", "condition": "class", "guidance": 1.5, "sampler": "dpmpp_2m"}),
    ("diffusion", {"weighting": "soft_min_snr", "prediction": "v"}),
    ("diffusion", {"weighting": "min_snr", "prediction": "eps", "schedule": "linear", "sampler": "ddim"}),
]


class Asked(tuple):
    """(kind, arguments) that `functools.cache` can hold."""

    def __new__(cls, kind, args):
        return super().__new__(cls, (kind, args))

    def __hash__(self):
        return hash(repr(self))


def asked(kind, args, **more):
    few = {} if kind == "adversarial" else {"sampler_steps": 4}
    return probe(objective=Asked(kind, few | args), **{"steps": 3, **more})


@pytest.mark.parametrize(("kind", "args"), CASES, ids=[" ".join((kind, *map(str, args.values()))) for kind, args in CASES])
def test_every_weighting_trains_and_engines_agree(kind, args):
    """Noise in training is each engine's own; that of validation and of pictures is NumPy's, and so alike."""
    results = [asked(kind, args, backend=backend) for backend in ("tensorflow", "jax")]
    for result in results:
        assert np.isfinite(result["loss"]).all() and result["loss"].shape == (3,)
        assert np.abs(result["weights:last/kernel"] - result["ema:last/kernel"]).max() > 1e-3  # it moves, behind the weights
        assert np.abs(result["prediction"] - result["raw"]).max() > 1e-4  # and is what is drawn
        assert np.abs(result["looked"][0] - result["looked"][1]).max() > 1e-3  # noise by number
    np.testing.assert_allclose(results[0]["measured"], results[1]["measured"], rtol=1e-4)
    # Heun over a cosine schedule begins at alpha = 5e-5, where a step is a difference of large numbers: rounding shows.
    np.testing.assert_allclose(results[0]["looked"], results[1]["looked"], atol=5e-3)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_the_number_of_replicas_changes_neither_losses_nor_pictures(backend):
    one, two = (asked("flow", {"condition": "class"}, backend=backend, replicas=replicas) for replicas in (1, 2))
    np.testing.assert_allclose(one["loss"], two["loss"], rtol=1e-4)
    np.testing.assert_allclose(one["looked"], two["looked"], atol=1e-4)


@pytest.mark.parametrize("loss", ["vanilla", "least_squares", "hinge"])
def test_engines_agree_on_generator_and_discriminator(loss):
    one, other = (asked("adversarial", {"loss": loss}, backend=backend, sgd=True) for backend in ("tensorflow", "jax"))
    np.testing.assert_allclose(one["measured"], other["measured"], rtol=1e-4)
    for name in ("loss", "weights:first/kernel", "prediction", *(n for n in one if n.startswith("weights:discriminator/"))):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-3, atol=1e-4, err_msg=name)
    assert {name.split("/")[0] for name in one if name.startswith("ema:")} == {"ema:first", "ema:last"}  # of the network that makes images


@pytest.mark.parametrize(
    ("kind", "backend"), [("flow", "tensorflow"), ("flow", "jax"), ("adversarial", "tensorflow"), ("adversarial", "jax")]
)
def test_all_networks_and_optimizers_are_resumed_exactly(kind, backend):
    args = {"loss": "hinge"} if kind == "adversarial" else {"condition": "class"}  # hinge: with spectral norm, whose vectors are state
    more = {"backend": backend, "steps_per_call": 2, "look": False, "ema_warmup": 0.7}
    straight, cut = asked(kind, args, **more), asked(kind, args, stop=2, **more)
    resumed = asked(kind, args, load=cut["path"], **more)
    names = [name for name in straight if ":" in name]
    assert {"optimizer", "weights", "ema"} == {name.split(":")[0] for name in names}
    assert any(name.startswith("optimizer:discriminator/") for name in names) == (kind == "adversarial")
    for name in names:
        np.testing.assert_array_equal(straight[name], resumed[name], err_msg=name)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_the_averages_warm_up_follows_its_formula(backend):
    """By hand, after each step: average <- average + (1 - decay) (weights - average), decay = min(ema, 1 - (1 + n)^-power)."""
    average = None
    for n in range(3):
        result = asked("flow", {}, backend=backend, ema_warmup=2 / 3, stop=n + 1, steps_per_call=1, look=False)
        weights, decay = result["weights:first/kernel"], min(0.9, 1 - (1 + n) ** (-2 / 3))
        average = weights if average is None else average + (1 - decay) * (weights - average)
        np.testing.assert_allclose(result["ema:first/kernel"], average, atol=1e-5)
