"""The file itself: encodings, YAML's syntax, keys that stand twice, anchors; and which file was meant."""

import codecs
import os

import pytest

from unetkit import recipe as recipes
from unetkit.recipe import RecipeError

GOOD = "name: grün\ndata: {source: emoji}\ntraining: {images: 10}\n"


def problem_of(source):
    with pytest.raises(RecipeError) as caught:
        recipes.read(source)
    (problem,) = caught.value.problems
    return problem


def test_a_path_a_text_a_dict_and_a_recipe_read_the_same(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(GOOD, encoding="utf-8")
    read = recipes.read(path)
    assert read == recipes.read(str(path)) == recipes.read(GOOD) == recipes.read(recipes.to_dict(read)) == recipes.read(read)
    assert read.name == "grün"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_utf8_with_or_without_a_mark_is_read(tmp_path, encoding):
    path = tmp_path / "r.yaml"
    path.write_bytes(GOOD.replace("\n", "\r\n").encode(encoding))
    assert recipes.read(path).name == "grün"


def test_other_encodings_are_told_by_name_and_line(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_bytes(b"# first\n" + GOOD.encode("latin-1"))
    problem = problem_of(path)
    assert (problem.place.line, problem.place.source) == (2, str(path))
    assert "byte 0xfc is not UTF-8" in problem.message
    path.write_bytes(codecs.BOM_UTF16_LE + GOOD.encode("utf-16-le"))
    assert "this file is UTF-16; save it as UTF-8" in problem_of(path).message


def test_characters_that_yaml_forbids_are_told_with_their_line():
    problem = problem_of("name: r\n# \0\n")
    assert problem.place.line == 2 and "U+0000" in problem.message


@pytest.mark.parametrize("text", ["", "   \n", "# only a comment\n", "---\n"])
def test_an_empty_recipe_is_told_as_empty(tmp_path, text):
    path = tmp_path / "r.yaml"
    path.write_text(text)
    assert "the recipe is empty" in problem_of(path).message
    assert "unetkit recipe new" in problem_of(path).message


@pytest.mark.parametrize("text", ["- a\n- b\n", "just words\n", "12\n", "null\n"])
def test_what_is_no_mapping_is_refused(text):
    assert "a recipe is a mapping of keys such as `name: my-run`" in problem_of(text).message


@pytest.mark.parametrize("text", ["name: r\ndata:\n\tsource: emoji\n", "name: r\n\tseed: 1\n", "data:\n  source: emoji\n\tsize: 64\n"])
def test_a_tab_is_told_as_a_tab(text):
    assert "indent with spaces" in problem_of(text).message


def test_broken_syntax_is_told_with_its_line():
    problem = problem_of("name: r\ndata: {source: emoji\ntraining: {images: 10}\n")
    assert problem.place.line == 3 and problem.message.startswith("not YAML (column ")
    assert "not YAML" in problem_of("name: *missing\n").message


def test_two_documents_are_refused():
    problem = problem_of(f"{GOOD}---\nseed: 1\n")
    assert problem.place.line == 4 and "one document" in problem.message


def test_a_key_that_stands_twice_is_told_with_both_lines():
    problem = problem_of(f"{GOOD}seed: 1\nbackend: jax\nseed: 1\n")
    assert (problem.path, problem.place.line) == ("seed", 6)
    assert "the first is in line 4" in problem.message
    inner = problem_of(GOOD.replace("images: 10", "images: 10, batch: 4, 'batch': 4"))
    assert inner.path == "training.batch"


def test_keys_that_are_not_words_are_unknown_keys():
    for key in ("on", "1", "null", "1.5"):
        assert problem_of(f"{GOOD}{key}: x\n").path == key
    assert "a key is a plain word" in problem_of(f"{GOOD}? [a, b]\n: x\n").message


def test_anchors_aliases_and_merges_work():
    text = """
name: r
data: {source: emoji, size: &side 64}
model:
  levels:
    - &first {channels: 8, attention: true}
    - {<<: *first, channels: 16}
    - *first
training: {images: *side}
"""
    recipe = recipes.read(text)
    assert recipe.training.images == 64
    assert [(level.channels, level.attention) for level in recipe.model.levels] == [(8, True), (16, True), (8, True)]


def test_of_merged_sections_the_first_wins_and_own_keys_win_over_all():
    text = f"""{GOOD}
logging:
  samples: &few {{count: 1}}
optimizer:
  <<: [{{learning_rate: 1, beta_1: 0.5}}, {{learning_rate: 2, beta_2: 0.5}}]
  beta_1: 0.25
"""
    optimizer = recipes.read(text).optimizer
    assert (optimizer.learning_rate, optimizer.beta_1, optimizer.beta_2) == (1.0, 0.25, 0.5)
    assert "`<<` merges sections" in problem_of(f"{GOOD}optimizer: {{<<: 3}}\n").message


def test_an_alias_that_holds_itself_ends_in_an_error():
    assert "an alias" in problem_of(f"{GOOD}model: &m {{block_args: {{a: *m}}}}\n").message


def test_aliases_of_aliases_cannot_blow_up():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "too many of them" in problem_of("\n".join(lines)).message


def test_deep_nesting_ends_in_an_error():
    assert "nested too deeply" in problem_of(f"name: {'[' * 1000}{']' * 1000}\n").message


@pytest.mark.parametrize("value", ["!!python/object/apply:os.getcwd []", "!mine x", "!!bool maybe", "!!binary aGk="])
def test_yaml_tags_build_nothing(value):
    with pytest.raises(RecipeError) as caught:
        recipes.read(GOOD.replace("grün", value))
    assert caught.value.problems[0].path == "name"


def test_a_missing_file_is_told_with_the_ones_near_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir("recipes")
    for name in ("emoji.yaml", "photos.yaml"):
        (tmp_path / "recipes" / name).write_text(GOOD, encoding="utf-8")
    assert problem_of("emoj.yaml").message == f"no such file; near it: {os.path.join('recipes', 'emoji.yaml')}"
    assert "near it: " + os.path.join("recipes", "photos.yaml") in problem_of("recipes/photo.yml").message
    assert all(name in problem_of("other.yaml").message for name in ("emoji.yaml", "photos.yaml"))


def test_a_folder_is_no_recipe(tmp_path):
    assert "a recipe is a YAML file" in problem_of(tmp_path).message
