"""Single values: what the strict reader takes for a number, a word, true or false, or text, and what it refuses."""

import math
import pickle

import keras
import pytest

from unetkit import recipe as recipes
from unetkit.recipe import RecipeError, kinds, schema

BASE = {"name": "r", "data": {"source": "emoji"}, "training": {"images": 1000}}
TEXT = "name: r\ndata: {source: emoji}\n"

NUMBERS = {
    "1e-4": 1e-4, "2e5": 2e5, "1e+4": 1e4, "5.0e4": 5e4, "1.5e6": 1.5e6, "1.0e-4": 1e-4, "1.e-4": 1e-4, "1E-4": 1e-4,
    ".5": 0.5, "5.": 5.0, "3": 3.0, "1_000.5": 1000.5, "+1e-4": 1e-4, '"1e-4"': 1e-4,
}  # fmt: skip
NO_NUMBERS = (
    "1e-4x", "true", "false", "yes", "fast", "1,5", "[1]", "{a: 1}", "010", "1:30", "0x10", "--1", "1e", "1 000",
)  # fmt: skip
OUT_OF_BOUNDS = {
    "training.batch": 0, "training.ema": 1.0, "data.background": [0, 0, 256], "optimizer.learning_rate": 0,
    "checkpoint.keep_last": 1, "seed": 2**31, "tpu.max_padding": 0.99, "data.split.validation": 1, "tpu.max_hbm": 1.1,
}  # fmt: skip
TAKEN_FOR = {"no": "false", "on": "true", "123": "a number", "1.5": "a number", "2024-01-31": "a date"}
MISSPELT = {
    "hardware.device": ("tpus", "tpu"),
    "training.precision": ("mixed-bfloat16", "mixed_bfloat16"),
    "objective.loss": ("L1", "l1"),
    "optimizer.name": ("adamm", "adam"),
    "model.activation": ("leakyrelu", "leaky_relu"),
    "data.source": ("emojis", "emoji"),
}
SWITCHES = {"on": "on", "off": "off", "true": "on", "false": "off", "'on'": "on", "auto": "auto"}


def problems(text, *overrides):
    with pytest.raises(RecipeError) as caught:
        recipes.read(text, overrides)
    assert caught.value.status == 2
    return caught.value.problems


def only_problem(text, *overrides):
    (problem,) = problems(text, *overrides)
    return problem


def with_training(line):
    return f"{TEXT}training:\n  images: 1000\n  {line}\n"


def with_optimizer(line):
    return f"{TEXT}training: {{images: 1000}}\noptimizer:\n  {line}\n"


@pytest.mark.parametrize(("written", "value"), NUMBERS.items())
def test_numbers_that_yaml_leaves_as_text_are_numbers(written, value):
    rate = recipes.read(with_optimizer(f"learning_rate: {written}")).optimizer.learning_rate
    assert rate == value and type(rate) is float
    by_override = recipes.read(with_optimizer("name: adam"), [f"optimizer.learning_rate={written}"])
    assert by_override.optimizer.learning_rate == value


@pytest.mark.parametrize("written", NO_NUMBERS)
def test_what_is_no_number_is_refused_with_path_and_line(written):
    problem = only_problem(with_optimizer(f"learning_rate: {written}"))
    assert problem.path == "optimizer.learning_rate"
    assert problem.place.line == 5
    assert "expected a number above 0; got" in problem.message
    assert only_problem(with_optimizer("name: adam"), f"optimizer.learning_rate={written}").path == "optimizer.learning_rate"


def test_the_number_that_a_text_begins_with_is_offered():
    assert "`1e-4x`: write 1e-4" in only_problem(with_optimizer("learning_rate: 1e-4x")).message


@pytest.mark.parametrize("written", [".nan", ".inf", "-.inf", "nan", "inf", "1e999"])
def test_numbers_are_finite(written):
    assert only_problem(with_optimizer(f"learning_rate: {written}")).path == "optimizer.learning_rate"


@pytest.mark.parametrize("value", [math.nan, math.inf, True, None, "1e-4x", [1e-4]])
def test_python_values_pass_the_same_checks(value):
    assert only_problem(BASE | {"optimizer": {"learning_rate": value}}).path == "optimizer.learning_rate"


@pytest.mark.parametrize("written", ["1000", "1000.0", "1e3", "1_000", "1.0e+3"])
def test_whole_numbers_may_be_written_with_a_point_or_an_exponent(written):
    images = recipes.read(f"{TEXT}training: {{images: {written}}}").training.images
    assert images == 1000 and type(images) is int


def test_a_broken_whole_number_is_refused_with_its_neighbours():
    assert "got `2.5`: the nearest are 2 and 3" in only_problem(with_training("batch: 2.5")).message


def test_numbers_in_nested_lists_are_read_alike():
    text = TEXT.replace("{source: emoji}", "{source: emoji, size: [6.4e1, 32.0], background: [1e1, 2.0e1, 255]}")
    data = recipes.read(f"{text}training: {{images: 10}}").data
    assert data.size == (64, 32) and data.background == (10, 20, 255)
    assert recipes.read(BASE, ["data.background=[1e1, 2e1, 3e1]"]).data.background == (10, 20, 30)
    assert only_problem(BASE, "data.background=[1, 2e1x, 3]").path == "data.background[1]"
    assert only_problem(BASE, "data.background=[1, true, 3]").path == "data.background[1]"


@pytest.mark.parametrize(("key", "value"), OUT_OF_BOUNDS.items())
def test_bounds_are_told_with_the_value(key, value):
    problem = only_problem(BASE, f"{key}={value}")
    assert "expected a" in problem.message and problem.path.startswith(key)


@pytest.mark.parametrize(("written", "value"), [("true", True), ("false", False), ("True", True), ("yes", True), ("off", False)])
def test_booleans_are_what_yaml_takes_for_them(written, value):
    assert recipes.read(f"{TEXT}training: {{images: 1}}\nhardware: {{deterministic: {written}}}").hardware.deterministic is value


@pytest.mark.parametrize("written", ["'yes'", '"true"', "1", "0", "y", "null"])
def test_other_spellings_are_no_booleans(written):
    problem = only_problem(f"{TEXT}training: {{images: 1}}\nhardware: {{deterministic: {written}}}")
    assert problem.path == "hardware.deterministic" and "expected true or false" in problem.message


@pytest.mark.parametrize(("written", "kept"), SWITCHES.items())
def test_a_switch_word_survives_yaml_which_reads_it_as_a_boolean(written, kept):
    read = recipes.read(f"{TEXT}training: {{images: 1}}\nhardware: {{jit: {written}}}")
    assert read.hardware.jit == kept
    assert recipes.read(recipes.to_yaml(read)) == read


@pytest.mark.parametrize(("written", "takes"), TAKEN_FOR.items())
def test_text_that_yaml_takes_for_something_else_shall_be_quoted(written, takes):
    text = f"name: {written}\ndata: {{source: emoji}}\ntraining: {{images: 1}}\n"
    assert f"YAML takes it for {takes}; quote it: '{written}'" in only_problem(text).message
    assert recipes.read(text.replace(written, f"'{written}'")).name == written


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "-x", "a:b", "", "   ", "what?"])
def test_a_name_must_do_as_a_folder(name):
    assert only_problem(BASE | {"name": name}).path == "name"


@pytest.mark.parametrize(("key", "written", "meant"), [(key, *words) for key, words in MISSPELT.items()])
def test_a_misspelt_word_is_told_with_the_nearest(key, written, meant):
    message = only_problem(BASE, f"{key}={written}").message
    assert f"got `{written}`" in message and f"did you mean `{meant}`?" in message


@pytest.mark.parametrize("key", ["optimizer", "training", "data", "seed", "model", "logging.samples", "data.source", "model.norm", "name"])
def test_an_empty_value_is_refused_where_null_means_nothing(key):
    found = problems(BASE, f"{key}=")
    assert key in [problem.path for problem in found]
    assert "got nothing: give a value" in next(problem.message for problem in found if problem.path == key)


def test_an_empty_section_in_a_file_is_told_with_its_line():
    problem = only_problem(f"{TEXT}training:\n  images: 10\noptimizer:\nseed: 1\n")
    assert (problem.path, problem.place.line) == ("optimizer", 5)
    assert "leave it out to have the default" in problem.message


@pytest.mark.parametrize("written", ["", "null", "~"])
def test_null_is_taken_where_it_has_a_meaning(written):
    assert recipes.read(with_training(f"ema: {written}")).training.ema is None


def test_none_is_a_word_and_null_is_not():
    assert recipes.read(BASE, ["model.norm=none"]).model.norm == "none"
    assert "`none` switches it off" in only_problem(BASE, "model.norm=null").message


def test_sections_and_lists_do_not_stand_for_one_another():
    assert "expected a section of" in only_problem(BASE, "data.split=0.1").message
    assert "expected a list" in only_problem(BASE, "model.levels=64").message
    assert "expected a list of 3" in only_problem(BASE, "data.background=[1, 2]").message
    assert "expected true or false; got a section" in only_problem(BASE, "hardware.deterministic={a: 1}").message
    assert "expected text; got a list of 1" in only_problem(BASE, "data.source={kind: pairs, inputs: [a], targets: b}").message


def test_a_bare_word_is_short_for_a_section_and_a_number_for_a_level():
    recipe = recipes.read(BASE, ["optimizer=sgd", "model.levels=[8, {channels: 16, attention: true}]"])
    assert recipe.optimizer == schema.Sgd()
    assert recipe.model.levels == (schema.Level(channels=8), schema.Level(channels=16, attention=True))


def test_a_union_without_its_tag_takes_the_default_or_names_the_one_that_fits():
    assert isinstance(recipes.read(BASE, ["optimizer={beta_1: 0.5}"]).optimizer, schema.Adam)
    message = only_problem(BASE | {"data": {"source": {"inputs": "a", "targets": "b"}}}).message
    assert (
        "missing: one of emoji, folder, pairs, side_by_side, sound, sound_pairs, synthetic, tones; these keys fit `kind: pairs`" in message
    )


def test_required_keys_are_named_when_missing():
    assert {problem.path for problem in problems({"training": {"images": 1}})} == {"name", "data"}
    assert {problem.path for problem in problems(BASE | {"data": {"source": "pairs"}})} == {"data.source.inputs", "data.source.targets"}


def test_a_missing_key_that_was_misspelt_is_told_once():
    assert [problem.path for problem in problems({"nam": "r"} | {k: v for k, v in BASE.items() if k != "name"})] == ["nam"]


def test_free_arguments_keep_their_types():
    args = "{rate: 1e-4, count: 3, whole: 2.0, word: '1e-4', deep: {list: [1e2, no, ~, a]}}"
    recipe = recipes.read(BASE, ["model.block=my.blocks:Mine", f"model.block_args={args}"])
    assert recipe.model.block_args == {"rate": 1e-4, "count": 3, "whole": 2.0, "word": "1e-4", "deep": {"list": [100.0, False, None, "a"]}}
    assert isinstance(recipe.model.block_args["whole"], float)
    for odd in ("{a: 2024-01-31}", "{a: 0x1F}", "{a: .nan}", "{a: [.inf]}"):
        assert only_problem(BASE, "model.block=my.blocks:Mine", f"model.block_args={odd}").path.startswith("model.block_args.a")


@pytest.mark.parametrize("name", ["my_blocks", "my_blocks:", ":Mine", "my blocks:Mine", "conv2"])
def test_a_block_is_conv_or_a_class_by_its_full_name(name):
    assert "package.module:Class" in only_problem(BASE, f"model.block={name!r}").message


def test_all_problems_come_at_once_in_the_order_of_the_file():
    text = """name: r
lerning_rate: 1
data:
  source: {kind: emoji, reverze: true}
  size: 63
training:
  images: 1e3x
  batch: true
optimizer: {name: adam, momentum: 0.9}
"""
    found = problems(text, "data.split.limit=0")
    assert [(problem.path, problem.place.line) for problem in found] == [
        ("lerning_rate", 2),
        ("data.source.reverze", 4),
        ("data.size", 5),
        ("training.images", 7),
        ("training.batch", 8),
        ("optimizer.momentum", 9),
        ("data.split.limit", None),
    ]


def test_the_message_lists_every_problem_in_one_line_each():
    with pytest.raises(RecipeError) as caught:
        recipes.read(with_training("batch: true\n  ema: 2"))
    first, *lines = str(caught.value).splitlines()
    assert first == "2 problems in the recipe:"
    assert lines == [
        "recipe:5: training.batch: expected a whole number of at least 1, or auto; got `true`",
        "recipe:6: training.ema: expected a number of at least 0 and below 1, or null; got `2`",
    ]


def test_the_error_survives_a_process_boundary():
    with pytest.raises(RecipeError) as caught:
        recipes.read(with_training("batch: true\n  ema: 2"))
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (copied.problems, str(copied)) == (caught.value.problems, str(caught.value))


def test_every_activation_of_the_schema_is_one_of_keras():

    model = kinds.root().keys["model"].kind.sections["unet"]
    inputs = keras.ops.reshape(keras.ops.linspace(-2.0, 2.0, 8), (2, 4))
    for name in model.keys["activation"].kind.values:
        assert keras.activations.get(name)(inputs).shape == (2, 4), name


@pytest.mark.parametrize("written", ["1e400", "-1e999", "1" + "0" * 50])
def test_a_number_too_large_to_be_one_is_told_so(written):
    assert "numbers here are finite" in only_problem(BASE | {"optimizer": {"learning_rate": written}}).message
