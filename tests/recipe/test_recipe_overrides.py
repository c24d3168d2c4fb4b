"""`--set section.key=value`: the same checks, with the override in the place of a line."""

import pytest

from unetkit import recipe as recipes
from unetkit.recipe import RecipeError, schema

TEXT = """name: r
data:
  source: emoji
model:
  levels: [8, 16]
training:
  images: 100
"""


def problems(*overrides):
    with pytest.raises(RecipeError) as caught:
        recipes.read(TEXT, overrides)
    return [(str(problem.place), problem.path) for problem in caught.value.problems]


def test_values_are_yaml():
    recipe = recipes.read(TEXT, ["seed=3", "model.levels=[4, {channels: 8}]", "training.ema=null", "data.split={limit: 7}", "name='12'"])
    assert (recipe.seed, recipe.training.ema, recipe.data.split.limit, recipe.name) == (3, None, 7, "12")
    assert recipe.model.levels == (schema.Level(channels=4), schema.Level(channels=8))


def test_later_overrides_win():
    assert recipes.read(TEXT, ["seed=1", "seed=2"]).seed == 2


def test_sections_that_the_file_leaves_out_are_made():
    recipe = recipes.read(TEXT, ["logging.samples.count=0", "optimizer.beta_1=0.5"])
    assert recipe.logging.samples.count == 0 and recipe.optimizer == schema.Adam(beta_1=0.5)


def test_short_forms_are_written_out():
    recipe = recipes.read(TEXT, ["data.source.reverse=true", "model.levels.1.attention=true", "model.levels.0=32"])
    assert recipe.data.source == schema.Emoji(reverse=True)
    assert recipe.model.levels == (schema.Level(channels=32), schema.Level(channels=16, attention=True))


def test_a_variant_is_changed_by_its_tag_or_as_a_whole():
    assert recipes.read(TEXT, ["optimizer.name=sgd", "optimizer.momentum=0.9"]).optimizer == schema.Sgd(momentum=0.9)
    assert recipes.read(TEXT, ["optimizer=lion"]).optimizer == schema.Lion()
    assert problems("optimizer.beta_1=0.5", "optimizer.name=sgd") == [("--set optimizer.beta_1=0.5", "optimizer.beta_1")]


@pytest.mark.parametrize(
    ("override", "path"),
    [
        ("training.batch=0", "training.batch"),
        ("training.batsh=4", "training.batsh"),
        ("learning_rate=1", "learning_rate"),
        ("model.levels.0.channels=x", "model.levels[0].channels"),
        ("model.levels.2=8", "model.levels.2"),
        ("model.levels.first=8", "model.levels.first"),
        ("seed.x=1", "seed"),
        ("training.callbacks.0.use=a:B", "training.callbacks.0"),
        ("data.size=63", "data.size"),
        ("optimizer=", "optimizer"),
    ],
)
def test_an_override_in_error_says_so_in_the_place_of_a_line(override, path):
    assert problems(override) == [(f"--set {override}", path)]


@pytest.mark.parametrize("override", ["seed", "=3", "training.=3", ".batch=3", "a..b=3"])
def test_what_is_no_override_is_refused(override):
    with pytest.raises(RecipeError, match=r"expected SECTION\.KEY=VALUE"):
        recipes.read(TEXT, [override])


def test_broken_yaml_in_a_value_is_told_with_the_other_problems():
    assert problems("model.levels=[1, 2", "seed=x") == [("--set model.levels=[1, 2", ""), ("--set seed=x", "seed")]


def test_a_list_that_is_not_in_the_file_is_set_as_a_whole():
    with pytest.raises(RecipeError, match=r"set the whole list: --set training\.callbacks=\[\.\.\.\]"):
        recipes.read(TEXT, ["training.callbacks.0=a:B"])
