"""A recipe section has the arguments and defaults of the objective it builds."""

import dataclasses
import inspect

import pytest

from unetkit import build, models, recipe
from unetkit.recipe import schema

SECTIONS = {"translation": schema.Translation, "adversarial": schema.Adversarial, "flow": schema.Flow, "diffusion": schema.Diffusion}
BASE = {
    "name": "r",
    "data": {"source": "emoji", "size": 16},
    "training": {"images": 8},
    "model": {"levels": [8, 8], "block": "modulated", "residual": "add", "output_activation": "linear"},
}


def test_every_kind_of_the_recipe_is_built():
    assert set(SECTIONS) == set(build.OBJECTIVES)


@pytest.mark.parametrize("kind", SECTIONS)
def test_the_section_has_the_constructors_arguments(kind):
    assert fields(SECTIONS[kind], "kind", "discriminator") == parameters(build.OBJECTIVES[kind].__init__)


def test_the_discriminators_section_has_the_constructors_arguments():
    assert fields(schema.PatchGan, "rate_share") == parameters(models.patch_gan)


def fields(section, *drop):
    return {f.name: f.default for f in dataclasses.fields(section) if f.name not in drop}


def parameters(function):
    drop = ("self", "network", "discriminator", "input_shape")
    return {name: p.default for name, p in inspect.signature(function).parameters.items() if name not in drop}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": {"levels": [8, 8], "output_activation": "linear"}}, "conv does not take the noise level"),
        ({"model": {**BASE["model"], "output_activation": "tanh"}}, "tanh ends at 1"),
        ({"model": {"preset": "original", "depth": 2}}, "which `preset: original` does not take"),
        ({"objective": {"kind": "flow", "guidance": 2, "condition_dropout": 0}}, "set condition_dropout above 0"),
        ({"objective": {"kind": "flow", "condition": "none", "guidance": 2}}, "it has no effect unless there is a condition"),
        ({"objective": {"kind": "flow", "gamma": 2}}, "unless weighting is min_snr or soft_min_snr"),
        ({"objective": {"kind": "diffusion", "prediction": "v", "rho": 5}}, "unless prediction is edm"),
        ({"objective": {"kind": "diffusion", "schedule": "linear"}}, "unless prediction is eps, x0 or v"),
        ({"objective": {"kind": "diffusion", "sigma_min": 90}}, "90 is not below sigma_max, 80"),
    ],
)
def test_what_does_not_go_together_is_refused(change, words):
    with pytest.raises(recipe.RecipeError) as caught:
        recipe.read({**BASE, "objective": "flow", **change})
    assert words in str(caught.value)
