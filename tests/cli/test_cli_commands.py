"""The command line: what each command prints, where its answer goes, and with which status it ends."""

import json
import re
import shlex
from pathlib import Path

import pytest
from PIL import Image

from unetkit import __version__
from unetkit.cli import app, main
from unetkit.cli import recipe as recipe_commands
from unetkit.errors import LimitError, UserError, WorkError

GOOD = "name: r\ndata: {source: emoji}\ntraining: {images: 10}\n"
RECIPE = str(Path(__file__).parents[2] / "recipes" / "emoji.yaml")


@pytest.fixture
def recipe_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.yaml").write_text(GOOD)
    return "r.yaml"


def helps(parser=None):
    """The help text of every command, by its words."""
    parser = parser or app.make_parser()
    texts = {parser.prog: parser.format_help()}
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for inner in action.choices.values():
                texts |= helps(inner)
    return texts


def test_help_and_version_end_well(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"unetkit {__version__}\n"
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    for command in ("train", "generate", "evaluate", "compare", "recipe", "data", "inspect", "explain-oom", "analysis"):
        assert re.search(rf"^    {command} .*\n +unetkit {command} ", printed, re.MULTILINE), command


def test_every_example_in_a_help_is_a_command_that_parses():
    examples = {line.strip() for text in helps().values() for line in text.splitlines() if re.match(r" +unetkit ", line)}
    assert len(examples) >= len(app.GROUPS)
    for example in examples:
        words = shlex.split(example.partition(" > ")[0])[1:]
        assert callable(app.make_parser().parse_args(words).command), example


def test_every_command_in_the_recipe_docs_parses():
    page = (Path(RECIPE).parents[1] / "docs" / "recipe.md").read_text(encoding="utf-8")
    commands = re.findall(r"^unetkit [^#>\n]+", page, re.MULTILINE)
    assert len(commands) >= 5
    for command in commands:
        assert callable(app.make_parser().parse_args(shlex.split(command)[1:]).command), command


@pytest.mark.parametrize(
    ("words", "meant"),
    [("trian x", "train"), ("recipe chek x", "check"), ("recipe check x --jsn -", "--json"), ("generate r i --ot d", "--out")],
)
def test_a_misspelt_command_or_option_is_told_with_the_nearest(capsys, words, meant):
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert f"did you mean {meant}?" in error or f"required: {meant}" in error


def test_options_are_not_abbreviated(capsys):
    assert main(["recipe", "check", RECIPE, "--js", "-"]) == 2
    assert "unrecognized arguments: --js" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["", "recipe", "data", "train", "generate runs/x", "recipe new"])
def test_what_is_missing_is_bad_input(capsys, words):
    assert main(words.split()) == 2
    assert "required" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [(UserError("u"), 2), (WorkError("w"), 1), (LimitError("l"), 3), (KeyboardInterrupt(), 130), (OSError(28, "No space left"), 1)],
)
def test_errors_become_exit_statuses_without_a_traceback(monkeypatch, capsys, error, status):
    def fail(args):
        raise error

    monkeypatch.setattr(recipe_commands, "check", fail)
    assert main(["recipe", "check", "x"]) == status
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("unetkit: ") and printed.err.count("\n") == 1


def test_a_mistake_of_ours_is_not_hidden(monkeypatch):
    def fail(args):
        raise AssertionError("a bug")

    monkeypatch.setattr(recipe_commands, "check", fail)
    with pytest.raises(AssertionError, match="a bug"):
        main(["recipe", "check", "x"])


def test_check_says_what_the_recipe_is(recipe_path, capsys):
    assert main(["recipe", "check", recipe_path, "--set", "data.size=[32, 64]", "--set", "training={epochs: 2.5}"]) == 0
    assert capsys.readouterr().out == "r.yaml: ok: r, emoji at 32 x 64 px, unet, 2.5 epochs in batches of 16\n"


def test_check_tells_all_problems(recipe_path, capsys):
    Path(recipe_path).write_text(GOOD + "lerning_rate: 1\nseed: x\n")
    assert main(["recipe", "check", recipe_path, "--set", "training.batch=0"]) == 2
    error = capsys.readouterr().err.splitlines()
    assert error[0] == "unetkit: 3 problems in the recipe:"
    assert [line.partition(": ")[0] for line in error[1:]] == ["r.yaml:4", "r.yaml:5", "--set training.batch=0"]


def test_check_writes_its_problems_as_json(recipe_path, capsys):
    Path(recipe_path).write_text(GOOD + "seed: x\n")
    assert main(["recipe", "check", recipe_path, "--json", "-"]) == 2
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["source"], problem["line"], problem["path"]) == ("r.yaml", 4, "seed")
    assert main(["recipe", "check", recipe_path, "--set", "seed=1", "--json", "out.json"]) == 0
    assert json.loads(Path("out.json").read_text()) == {"ok": True, "problems": []}
    assert capsys.readouterr().out.startswith("r.yaml: ok")


def test_json_for_a_missing_folder_is_bad_input_before_the_work(capsys):
    assert main(["evaluate", "no-run", "--json", "nowhere/out.json"]) == 2
    assert "there is no folder nowhere" in capsys.readouterr().err


def test_a_folder_in_place_of_a_file_is_bad_input_before_the_work(tmp_path, capsys):
    assert main(["evaluate", "no-run", "--json", str(tmp_path)]) == 2
    assert f"{tmp_path} is a folder; name a file" in capsys.readouterr().err
    assert main(["generate", "no-run", "a.png", "--out", "out", "--tile", "0"]) == 2
    assert "--tile: expected a whole number of 1 or more; got '0'" in capsys.readouterr().err


def test_a_missing_recipe_is_told_with_the_one_beside_it(recipe_path, capsys):
    assert main(["recipe", "check", "rr.yaml"]) == 2
    assert capsys.readouterr().err == "unetkit: rr.yaml: no such file; near it: r.yaml\n"


def test_an_unknown_chip_is_told_with_the_known_ones(recipe_path, capsys):
    assert main(["recipe", "check", recipe_path, "--set", "tpu.chip=v5e-8"]) == 0
    assert main(["recipe", "check", recipe_path, "--set", "tpu.chip=v9-8"]) == 2
    error = capsys.readouterr().err
    assert "--set tpu.chip=v9-8: tpu.chip: " in error and "v9-8" in error and "v2-8" in error
    assert main(["recipe", "check", recipe_path, "--set", "tpu.chip=v9-8", "--json", "-"]) == 2
    assert json.loads(capsys.readouterr().out)["problems"][0]["path"] == "tpu.chip"


def test_show_prints_a_recipe_that_reads_back_equal(recipe_path, capsys):
    from unetkit import read_recipe
    from unetkit.recipe import to_dict

    assert main(["recipe", "show", recipe_path, "--set", "seed=7"]) == 0
    shown = read_recipe(capsys.readouterr().out)
    assert shown == read_recipe(recipe_path, ["seed=7"])
    assert main(["recipe", "show", recipe_path, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == to_dict(read_recipe(recipe_path))


def test_schema_is_json_or_a_table(capsys):
    assert main(["recipe", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "unetkit recipe"
    assert main(["recipe", "schema", "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("### The top")


def folders(tmp_path, *sizes, mode="L"):
    for number, size in enumerate(sizes):
        for folder, kind in (("sketches", mode), ("photos", "RGB")):
            (tmp_path / folder).mkdir(exist_ok=True)
            Image.new(kind, size).save(tmp_path / folder / f"{number}.png")


def test_new_writes_a_recipe_that_passes_and_fits_the_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folders(tmp_path, *[(300, 201)] * 12)
    assert main(["recipe", "new", "--pairs", "sketches", "photos", "--out", "mine.yaml"]) == 0
    assert "12 pairs" in capsys.readouterr().out
    assert main(["recipe", "check", "mine.yaml"]) == 0
    assert main(["data", "check", "mine.yaml", "--json", "-"]) == 0
    from unetkit import read_recipe

    recipe = read_recipe("mine.yaml")
    assert (recipe.name, recipe.data.size) == ("mine", (200, 296))
    assert (recipe.data.input_channels, recipe.data.target_channels, recipe.training.batch) == (1, 3, 8)


def test_new_proposes_a_square_for_mixed_sizes_and_no_more_than_256(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders(tmp_path, (100, 90), (50, 61), (2000, 1000), mode="RGBA")
    assert main(["recipe", "new", "--pairs", "sketches", "photos"]) == 0
    from unetkit import read_recipe

    recipe = read_recipe("recipe.yaml")
    assert (recipe.data.size, recipe.data.input_channels, recipe.training.batch) == (88, 3, 2)
    folders(tmp_path, *[(2000, 1000)] * 3)
    assert main(["recipe", "new", "--pairs", "sketches", "photos", "--out", "large.yaml"]) == 0
    assert read_recipe("large.yaml").data.size == (256, 512)


def test_new_overwrites_nothing_and_needs_pairs(recipe_path, tmp_path, capsys):
    folders(tmp_path, (16, 16))
    assert main(["recipe", "new", "--pairs", "sketches", "photos", "--out", recipe_path]) == 2
    assert "r.yaml exists and is not overwritten" in capsys.readouterr().err
    assert Path(recipe_path).read_text() == GOOD
    for pairs, told in ((("sketches", "photo"), "photos"), (("sketches", "r.yaml"), "is a file"), (("sketches", "empty"), "")):
        (tmp_path / "empty").mkdir(exist_ok=True)
        assert main(["recipe", "new", "--pairs", *pairs, "--out", "x.yaml"]) == 2
        assert told in capsys.readouterr().err
        assert not Path("x.yaml").exists()
    assert main(["recipe", "new", "--pairs", "sketches", "photos", "--out", "nowhere/x.yaml"]) == 2


def test_new_tells_what_is_wrong_with_single_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folders(tmp_path, (16, 16), (16, 16), (16, 16))
    (tmp_path / "sketches" / "2.png").write_text("no image")
    Image.new("L", (16, 16)).save(tmp_path / "sketches" / "alone.png")
    assert main(["recipe", "new", "--pairs", "sketches", "photos"]) == 0
    printed = capsys.readouterr().out
    assert "alone" in printed and "2.png" in printed


def test_data_check_ends_with_2_where_training_would_be_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folders(tmp_path, (16, 16), (16, 16))
    main(["recipe", "new", "--pairs", "sketches", "photos"])
    capsys.readouterr()
    assert main(["data", "check", "recipe.yaml"]) == 0
    assert "2 pairs" in capsys.readouterr().out
    (tmp_path / "photos" / "1.png").write_text("no image")
    assert main(["data", "check", "recipe.yaml", "--json", "report.json"]) == 2
    assert "1.png" in capsys.readouterr().out
    assert json.loads(Path("report.json").read_text())["ok"] is False
