"""The recipe written out: every default, read back equal; as JSON Schema; and as the table in docs/recipe.md."""

import json
import string
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from unetkit import recipe as recipes
from unetkit.recipe import checks, declare, kinds, schema, table, values

ROOT = Path(__file__).parents[2]
BASE = {"name": "r", "data": {"source": "emoji"}, "training": {"images": 1000}}
VALIDATOR = jsonschema.Draft202012Validator(recipes.json_schema())

REFUSED = (
    {"seed": 1.5}, {"seed": "1e-4x"}, {"name": "a/b"}, {"backend": "torch"}, {"hardware": {"jit": 1}}, {"hardware": {"replicas": 0}},
    {"optimizer": {"name": "adam", "momentum": 0.9}}, {"optimizer": "adamm"}, {"optimizer": None}, {"model": {"levels": [0]}},
    {"data": {"source": "pairs"}}, {"data": {"source": "emoji", "size": [1, 2, 3]}}, {"training": []},
)  # fmt: skip
ACCEPTED = (
    {"seed": "1e3"}, {"seed": 16.0}, {"hardware": {"jit": True}}, {"hardware": {"jit": "on"}}, {"optimizer": "sgd"},
    {"model": {"levels": [8, {"channels": 16}, 16, 16]}}, {"data": {"source": {"kind": "emoji"}, "size": [64, 32]}},
)  # fmt: skip

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(str.strip)
WORDS = st.one_of(TEXT, st.sampled_from(["1e-4", "010", "no", "on", "~", "12", "2024-01-31", "a: b", "# c", "!x", "<<", "=", "é"]))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
FREE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**12), 10**12), FINITE, WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=6,
)


def strategy(kind):
    """Draws Python values that a key of this kind may have in a `Recipe`."""
    match kind:
        case kinds.Null():
            return st.none()
        case kinds.Boolean():
            return st.booleans()
        case kinds.Number(whole=True):
            return st.integers(int(kind.least or 0), int(kind.most if kind.most is not None else 10**12))
        case kinds.Number():
            low, high = (kind.least, kind.above), (kind.most, kind.below)
            least, most = (next((bound for bound in pair if bound is not None), None) for pair in (low, high))
            exclude = {"exclude_min": kind.above is not None, "exclude_max": kind.below is not None}
            return st.floats(least, most, allow_nan=False, allow_infinity=False, **exclude).map(abs)
        case kinds.Text():
            return (
                WORDS
                if kind.pattern is None
                else st.from_regex(kind.pattern, fullmatch=True, alphabet=string.ascii_letters + string.digits + ".:_ ")
            )
        case kinds.Choice():
            return st.sampled_from(kind.values)
        case kinds.Sequence():
            return st.lists(strategy(kind.item), min_size=kind.length or 0, max_size=kind.length or 3).map(tuple)
        case kinds.Arguments():
            return st.dictionaries(WORDS, FREE, max_size=3)
        case kinds.Section():
            return st.builds(kind.cls, **{name: strategy(key.kind) for name, key in kind.keys.items()})
        case kinds.Variants():
            return st.one_of([strategy(section) for section in kind.sections.values()])
        case kinds.Either():
            return st.one_of([strategy(option) for option in kind.options])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(recipe=strategy(kinds.root()))
def test_any_recipe_is_written_and_read_back_equal(recipe):
    text = recipes.to_yaml(recipe)
    with pytest.MonkeyPatch.context() as patch:  # drawn keys need not fit one another
        patch.setattr(checks, "RULES", ())
        patch.setattr(checks, "UNUSED", ())
        assert recipes.read(text) == recipe
        assert recipes.read(recipes.to_dict(recipe)) == recipe
    assert yaml.safe_load(text) == recipes.to_dict(recipe)  # for other programs, PyYAML among them
    VALIDATOR.validate(recipes.to_dict(recipe))


def test_to_dict_holds_every_key_and_nothing_of_python():
    tree = recipes.to_dict(recipes.read(BASE))
    assert json.loads(json.dumps(tree)) == tree
    assert list(tree) == list(kinds.root().keys)
    assert next(iter(tree["optimizer"])) == "name" and next(iter(tree["data"]["source"])) == "kind"


def test_to_dict_shares_nothing_with_the_recipe():
    recipe = recipes.read(BASE, ["model.block=a:B", "model.block_args={a: [1]}"])
    recipes.to_dict(recipe)["model"]["block_args"]["a"].append(2)
    assert recipe.model.block_args == {"a": [1]}


def test_the_defaults_of_the_schema_pass_their_own_checks():
    assert recipes.read(BASE) == schema.Recipe(name="r", data=schema.Data(source=schema.Emoji()), training=schema.Training(images=1000))


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_recipe_is_sound_and_says_what_it_is(path):
    recipe = recipes.read(path)
    assert recipe.name == path.stem
    VALIDATOR.validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    header = "\n".join(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")).lower()
    assert f"recipes/{path.name}" in header and "unetkit " in header
    assert "hardware" in header and "result" in header


def test_the_json_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(recipes.json_schema())
    assert recipes.json_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("change", REFUSED)
def test_the_json_schema_refuses_what_the_reader_refuses(change):
    assert not VALIDATOR.is_valid(BASE | change)
    with pytest.raises(recipes.RecipeError):
        recipes.read(BASE | change)


@pytest.mark.parametrize("change", ACCEPTED)
def test_the_json_schema_accepts_what_the_reader_accepts(change):
    VALIDATOR.validate(BASE | change)
    recipes.read(BASE | change)


def test_patterns_mean_the_same_to_ecmascript():
    """Editors run the patterns as ECMAScript, which has no named groups, possessive marks or inline flags of Python's."""
    patterns = [values.NUMBER.pattern, declare.DOTTED_CLASS, declare.FOLDER_NAME]
    assert not any(mark in pattern for pattern in patterns for mark in ("(?P", "(?i", "++", "*+", r"\A", r"\Z"))


def test_the_table_of_keys_in_the_docs_is_the_schemas():
    page = (ROOT / "docs" / "recipe.md").read_text(encoding="utf-8")
    begin, end = "<!-- unetkit recipe schema --markdown -->\n", "<!-- end -->"
    assert page.partition(begin)[2].partition(end)[0].strip() == table.markdown().strip()


def test_the_example_in_the_docs_is_a_recipe():
    page = (ROOT / "docs" / "recipe.md").read_text(encoding="utf-8")
    example = page.partition("```yaml\n")[2].partition("```")[0]
    assert recipes.read(example).training.epochs == 50


def test_the_table_names_every_key_and_every_default():
    rows = [line for line in table.markdown().splitlines() if line.startswith("| `")]
    named = {row.split("`")[1] for row in rows}
    tags = {"kind", "preset"}  # the word that chooses a variant is told where the section is declared
    assert named == {item.key.name for item in kinds.every_key()} - tags
    assert all(row.count("|") == 5 for row in rows)
