"""Every key of the recipe, misspelt and misplaced in turn at every level: always an error that names what was meant."""

import copy
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unetkit import recipe as recipes
from unetkit.recipe import RecipeError
from unetkit.recipe.kinds import Arguments, every_key
from unetkit.recipe.unknown import RENAMED

ROOT = Path(__file__).parents[2]
BASE = {"name": "r", "data": {"source": "emoji"}, "training": {"images": 1000, "callbacks": ["a.b:C"]}}
SOURCES = (
    {"kind": "pairs", "inputs": "a", "targets": "b"},
    {"kind": "side_by_side", "path": "a"},
    {"kind": "synthetic", "images": 4},
    *({"kind": "folder", "path": "a", "task": {"kind": kind}} for kind in ("colorize", "super_resolve", "denoise", "inpaint")),
)
SIGNALS = (
    {"kind": "sound", "path": "a", "rate": 8000, "task": "denoise"},
    {"kind": "sound_pairs", "inputs": "a", "targets": "b", "rate": 8000},
    {"kind": "tones", "task": "inpaint"},
)
MONO = {"input_channels": 1, "target_channels": 1}
VARIANTS = (
    {"logging": {"wandb": "project"}},
    *({"data": {"source": source}} for source in SOURCES),
    *({"data": {"source": source, **MONO}, "model": {"rank": 1}} for source in SIGNALS),
    *({"optimizer": name} for name in ("adam", "adamw", "sgd", "rmsprop", "lion", "lamb", "rectified_adam", "novograd", "lookahead")),
    {"model": "original"},
    {"objective": "adversarial"},
    *({"objective": kind, "model": {"block": "modulated", "output_activation": "linear"}} for kind in ("flow", "diffusion")),
)
FULL = [recipes.to_dict(recipes.read(BASE | variant)) for variant in VARIANTS]
FREE = {item.path for item in every_key() if isinstance(item.key.kind, Arguments)}


def places(tree, path=""):
    """Yields (section, key, path) of every key of a nested recipe, sections of the user's own arguments left out."""
    if isinstance(tree, dict) and path not in FREE:
        for key, value in tree.items():
            here = f"{path}.{key}" if path else key
            yield tree, key, here
            yield from places(value, here)
    elif isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from places(item, f"{path}[{index}]")


def rename(tree, path, new):
    """A copy of the recipe in which the key at `path` is called `new`, at the same place."""
    tree = copy.deepcopy(tree)
    section, key = next((section, key) for section, key, here in places(tree) if here == path)
    items = [(new if name == key else name, value) for name, value in section.items()]
    section.clear()
    section.update(items)
    return tree


EVERY_PLACE = {path: tree for tree in FULL for _, _, path in places(tree) if "levels[1]" not in path}


def problems(source, overrides=()):
    with pytest.raises(RecipeError) as caught:
        recipes.read(source, overrides)
    return {problem.path: problem.message for problem in caught.value.problems}


def test_the_untouched_recipes_pass_and_hold_every_key():
    assert all(recipes.to_dict(recipes.read(tree)) == tree for tree in FULL)
    reached = {path.replace("[0]", "[]") for path in EVERY_PLACE}
    assert {item.path for item in every_key()} <= reached


@pytest.mark.parametrize("path", EVERY_PLACE)
def test_each_key_misspelt_is_an_error_that_names_it(path):
    section, _, key = path.rpartition(".")
    found = problems(rename(EVERY_PLACE[path], path, f"{key}x"))
    wrong = f"{section}.{key}x" if section else f"{key}x"
    assert wrong in found
    assert f"`{key}`" in found[wrong] or f"`{path}`" in found[wrong]
    assert "Known " in found[wrong]


@pytest.mark.parametrize("path", [path for path in EVERY_PLACE if "_" in path.rpartition(".")[2]])
def test_each_key_with_hyphens_is_an_error_that_names_it(path):
    key = path.rpartition(".")[2]
    hyphened = key.replace("_", "-")
    found = problems(rename(EVERY_PLACE[path], path, hyphened))
    assert f"it is written `{key}`" in next(message for at, message in found.items() if at.endswith(hyphened))


def test_the_json_schema_refuses_each_misspelt_key_too():
    validator = jsonschema.Draft202012Validator(recipes.json_schema())
    assert all(validator.is_valid(tree) for tree in FULL)
    accepted = [path for path, tree in EVERY_PLACE.items() if validator.is_valid(rename(tree, path, f"{path.rpartition('.')[2]}x"))]
    assert not accepted


def test_each_line_of_the_shipped_recipe_misspelt_is_told_with_its_line():
    lines = (ROOT / "recipes" / "emoji.yaml").read_text(encoding="utf-8").splitlines()
    keyed = [number for number, line in enumerate(lines) if ":" in line and not line.lstrip().startswith("#")]
    assert len(keyed) > 10
    for number in keyed:
        changed = [line.replace(":", "x:", 1) if at == number else line for at, line in enumerate(lines)]
        with pytest.raises(RecipeError) as caught:
            recipes.read("\n".join(changed))
        assert number + 1 in [problem.place.line for problem in caught.value.problems]


def test_every_key_of_a_section_at_the_top_is_sent_to_its_section():
    known_at_the_top = {item.key.name for item in every_key() if not item.section}
    inner = {item.key.name: item.path for item in every_key() if item.section and item.key.name not in known_at_the_top}
    found = problems(BASE | dict.fromkeys(inner, 1))
    assert found.keys() == inner.keys()
    for name, path in inner.items():
        assert "misplaced: it does not belong at the top but here: " in found[name] and f"`{path}`" in found[name]


def test_a_key_in_the_wrong_block_is_sent_to_its_own():
    found = problems(BASE | {"learning_rate": 1e-4, "training": {"images": 10, "seed": 3, "momentum": 0.5}})
    assert "misplaced: it does not belong at the top but here: `optimizer.learning_rate`" in found["learning_rate"]
    assert "misplaced: it does not belong in `training` but here: `seed`" in found["training.seed"]
    assert "`optimizer.momentum` (rmsprop, sgd)" in found["training.momentum"]


def test_an_option_of_another_variant_is_told_as_such():
    found = problems(BASE | {"optimizer": {"name": "adam", "momentum": 0.9}, "model": {"depth": 3}})
    assert "it is not a key of adam, but of sgd, rmsprop (`optimizer.name`)" in found["optimizer.momentum"]
    assert "it is not a key of unet, but of original (`model.preset`)" in found["model.depth"]
    assert "but of original" in problems(BASE, ["model.depth=3"])["model.depth"]


def test_renamed_keys_say_what_they_are_called_now():
    found = problems(BASE | {"lr": 1, "training": {"images": 10, "steps_per_execution": 4, "batch-size": 8}})
    assert "renamed: it is called `optimizer.learning_rate` here" in found["lr"]
    assert "renamed: it is called `training.steps_per_call` here" in found["training.steps_per_execution"]
    assert "renamed: it is called `training.batch` here" in found["training.batch-size"]
    assert "`training.images` here, and counts images, not steps" in problems(BASE | {"steps": 5})["steps"]
    assert "`model.negative_slope`" in problems(BASE, ["model.alpha=0.1"])["model.alpha"]
    assert "`model.leaky_relu_alpha`" in problems(BASE, ["model.preset=original", "model.alpha=0.1"])["model.alpha"]


def test_the_table_of_renamed_keys_leads_from_unknown_keys_to_known_ones():
    names, paths = {item.key.name for item in every_key()}, {item.path for item in every_key()}
    assert not names & RENAMED.keys()
    assert {path for new in RENAMED.values() for path in new} <= paths


def test_a_dotted_key_is_unfolded():
    assert (
        "write the sections one inside the other: `optimizer: {clip_norm: ...}`"
        in problems(BASE | {"optimizer.clip_norm": 1})["optimizer.clip_norm"]
    )


def test_a_key_like_none_of_ours_is_told_with_what_is_known():
    message = problems(BASE | {"zzz": 1})["zzz"]
    assert message.startswith("unknown key. Known at the top: name, seed, backend")


ODD = st.one_of(
    st.sampled_from([None, True, -1, 2.5, 10**30, "", "x", "1e-4", "unet", [], [1], [[]], {}, {"a": 1}, {"kind": "pairs"}, {"name": []}]),
    st.text(max_size=4),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_whatever_stands_anywhere_ends_in_a_recipe_or_in_a_recipe_error(data):
    tree = copy.deepcopy(data.draw(st.sampled_from(FULL)))
    for _ in range(data.draw(st.integers(1, 3))):
        section, key, _ = data.draw(st.sampled_from(list(places(tree))))
        if isinstance(section[key], list) and section[key]:
            section[key][-1] = copy.deepcopy(data.draw(ODD))
        elif data.draw(st.booleans()):
            section[key] = copy.deepcopy(data.draw(ODD))
        else:
            section[data.draw(st.text(max_size=3))] = section.pop(key)
    try:
        recipes.read(tree)
    except RecipeError as error:
        assert error.problems


@settings(max_examples=100, deadline=None, derandomize=True)
@given(text=st.text(st.sampled_from("abn:-?!&*<>[]{},#|'\" \n\t~.1e0%@`\x00\ufeff"), max_size=30))
def test_whatever_text_ends_in_a_recipe_error(text):
    with pytest.raises(RecipeError):
        recipes.read(f"{text}\n")
    with pytest.raises(RecipeError):
        recipes.read(f"name: r\nxyz: {text}\n")
