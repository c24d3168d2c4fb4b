"""`unetkit inspect`, `explain-oom` and `analysis` on the command line, with recorded answers."""

import io
import json

import pytest

from unetkit.cli import main
from unetkit.tpu import analyse, environment, inspection
from unetkit.tpu.answer import Answer
from unetkit.tpu.cache import Cache

OOM = (
    "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO temporaries "
    "(8.12G) exceeds available HBM (7.48G). HLO module: jit_train_step."
)


@pytest.fixture
def recipe_file(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text("name: tiny\ndata: {source: emoji}\ntraining: {batch: 64, epochs: 1}\ntpu: {chip: v2-8}\n")
    return str(path)


@pytest.fixture
def asked(monkeypatch, recorded):
    """Answers from records in place of the compiler; what was asked is kept in the list."""
    calls = []

    def ask_recipe(recipe, chip_name, batches, program, *, stage, advise):
        calls.append((recipe.name, chip_name, batches, program, stage, advise))
        names = {64: "original_v2", 2048: "original_v2_oom"}
        found = [recorded(names[batch]) for batch in batches or [64]]
        return [inspection.Inspected(answer=analyse.answer(*f), lowered=f[0], record=f[1], chip=f[2]) for f in found]

    monkeypatch.setattr(inspection, "ask_recipe", ask_recipe)
    return calls


def test_inspect_shows_and_writes(asked, recipe_file, tmp_path, capsys):
    assert main(["inspect", recipe_file, "--json", str(tmp_path / "a.json"), "--html", str(tmp_path / "a.html")]) == 0
    assert asked == [("tiny", None, None, None, "full", True)]
    assert "output fusion" in capsys.readouterr().out
    assert Answer.from_dict(json.loads((tmp_path / "a.json").read_text())).fits is True
    assert (tmp_path / "a.html").read_text().lower().startswith("<!doctype html>")


def test_inspect_takes_several_batches_and_says_3_when_one_does_not_fit(asked, recipe_file, tmp_path, capsys):
    arguments = [
        "--batch",
        "64,2048",
        "--chip",
        "v3-8",
        "--program",
        "jax",
        "--memory-only",
        "--json",
        "-",
        "--html",
        str(tmp_path / "a.html"),
    ]
    assert main(["inspect", recipe_file, *arguments]) == 3
    assert asked == [("tiny", "v3-8", [64, 2048], "jax", "memory", False)]
    out, err = capsys.readouterr()
    assert [a["fits"] for a in json.loads(out)] == [True, False]
    assert "at batch 2048 does not fit" in err
    assert (tmp_path / "a-64.html").exists() and (tmp_path / "a-2048.html").exists()


@pytest.mark.parametrize(
    ("limit", "status", "words"),
    [
        (["--max-padding", "1.5"], 3, "padded"),
        (["--max-hbm", "0.001"], 3, "usable HBM"),
        (["--max-padding", "50", "--max-hbm", "0.9"], 0, ""),
    ],
)
def test_limits_exceeded_exit_3(asked, recipe_file, capsys, limit, status, words):
    assert main(["inspect", recipe_file, *limit]) == status
    assert words in capsys.readouterr().err


def test_the_recipes_own_limits_hold_unless_others_are_given(asked, recipe_file, capsys):
    assert main(["inspect", recipe_file, "--set", "tpu.max_padding=1.5"]) == 3
    assert "above the limit of 1.5x" in capsys.readouterr().err
    assert main(["inspect", recipe_file, "--set", "tpu.max_padding=1.5", "--max-padding", "50"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--max-padding", "0.5"], "1.0 or more"),
        (["--max-padding", "nan"], "1.0 or more"),
        (["--max-padding", "much"], "expected a number"),
        (["--max-hbm", "90"], "0.9 for 90 %"),
        (["--html", "/no/such/page.html"], "no folder /no/such"),
        (["--json", "/no/such/answer.json"], "no folder /no/such"),
        (["--xprof", __file__], "there is a file"),
        (["--xprof", f"{__file__}/below"], "there is a file"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_asked(asked, recipe_file, arguments, words, capsys):
    assert main(["inspect", recipe_file, *arguments]) == 2
    assert words in capsys.readouterr().err and not asked


@pytest.mark.parametrize("batch", ["12,x", "0", ""])
def test_a_batch_that_is_none_is_refused(asked, recipe_file, batch, capsys):
    assert main(["inspect", recipe_file, "--batch", batch]) == 2
    assert "--batch" in capsys.readouterr().err and not asked


def test_where_no_compiler_is_the_model_answers_and_says_so(recipe_file, monkeypatch, tmp_path, capsys):
    def missing():
        raise environment.CompilerMissing("libtpu is not here")

    monkeypatch.setattr(inspection, "find_interpreter", missing)
    assert main(["inspect", recipe_file, "--no-advice", "--json", str(tmp_path / "a.json")]) == 0
    said = json.loads((tmp_path / "a.json").read_text())
    assert said["source"] == "model" and said["fits"] is True
    out = capsys.readouterr().out
    assert "arithmetic model" in out and "libtpu is not here" in out
    assert main(["inspect", recipe_file, "--no-advice", "--xprof", str(tmp_path / "profile")]) == 2
    assert "unetkit analysis setup" in capsys.readouterr().err


def test_without_the_compiler_a_keras_model_is_answered_with_advice(monkeypatch):
    import keras

    from unetkit import tpu

    def missing():
        raise environment.CompilerMissing("libtpu is not here")

    monkeypatch.setattr(inspection, "find_interpreter", missing)
    image = keras.Input((32, 32, 3))
    model = keras.Model(image, keras.layers.Conv2D(8, 3, padding="same")(keras.layers.Conv2D(64, 3, name="wide")(image)), name="little")
    answer = tpu.inspect(model, optimizer="adam", loss="mae", target_shape=(30, 30, 8), batch=136, chip="v2-8", advise=True)
    assert answer.source == "model" and "libtpu is not here" in answer.notes
    assert any(a.text.startswith("batch: 128, 16 per replica; 17 are padded to 24") for a in answer.advice)
    assert "arithmetic model" in tpu.text(answer)


def test_an_unknown_chip_lists_the_known(recipe_file, capsys):
    assert main(["inspect", recipe_file, "--chip", "v9-8"]) == 2
    assert "known: v2-8" in capsys.readouterr().err


def test_explain_oom_reads_a_file_and_standard_input(tmp_path, capsys, monkeypatch):
    path = tmp_path / "error.txt"
    path.write_text(OOM)
    assert main(["explain-oom", str(path), "--json", str(tmp_path / "oom.json")]) == 0
    assert "8.12 GiB of hbm needed" in capsys.readouterr().out
    assert json.loads((tmp_path / "oom.json").read_text())["module"] == "jit_train_step"
    monkeypatch.setattr("sys.stdin", io.StringIO(OOM))
    assert main(["explain-oom", "-"]) == 0
    assert main(["explain-oom", str(tmp_path / "none.txt")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_analysis_status_and_clear(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("UNETKIT_CACHE_DIR", str(tmp_path))
    Cache().put("a", lambda folder: (folder / "text").write_text("x"))
    assert main(["analysis", "status", "--json", "-"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["entries"] == 1 and said["cache"] == str(tmp_path / "answers")
    assert main(["analysis", "clear"]) == 0
    assert "dropped 1 answers" in capsys.readouterr().out
    assert main(["analysis", "status"]) == 0
    assert "0 answers" in capsys.readouterr().out
