"""The command line as a process: what it imports, and what it does when its reader goes away."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("keras", "tensorflow", "jax", "numpy", "PIL", "rich", "matplotlib", "grain")
REPORT = f"""
import sys
from unetkit.cli import main
status = main(sys.argv[1:])
print(status, *(name for name in {HEAVY} if name in sys.modules), file=sys.stderr)
"""


def loaded(*words, code=REPORT):
    """(exit status, heavy modules) of one command in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
    status, *modules = done.stderr.splitlines()[-1].split()
    return int(status), modules


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--help"], 0),
        (["recipe", "check", "recipes/emoji.yaml"], 0),
        (["recipe", "show", "recipes/emoji.yaml"], 0),
        (["recipe", "schema"], 0),
        (["recipe", "check", "recipes/emoji.yaml", "--set", "lerning_rate=1", "--set", "data.size=63"], 2),
        (["train", "recipes/emoji.yaml", "--set", "optimizer.momentum=0.9"], 2),
        (["train", "recipes/emoj.yaml"], 2),
        (["trian"], 2),
    ],
)
def test_small_commands_and_bad_recipes_load_nothing_heavy(words, status):
    assert loaded(*words) == (status, [])


@pytest.mark.parametrize("name", ["unetkit", "unetkit.recipe", "unetkit.cli", "unetkit.shapes", "unetkit.errors"])
def test_importing_the_small_rooms_loads_nothing_heavy(name):
    code = f"import sys, {name}; print(0, *(name for name in {HEAVY} if name in sys.modules), file=sys.stderr)"
    assert loaded(code=code) == (0, [])


def test_a_conflict_of_backends_ends_before_anything_is_loaded(tmp_path):
    words = ["train", "recipes/emoji.yaml", "--run", str(tmp_path / "run")]
    environment = os.environ | {"KERAS_BACKEND": "jax"}
    done = subprocess.run([sys.executable, "-m", "unetkit", *words], cwd=ROOT, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 2 and "KERAS_BACKEND=jax" in done.stderr and "tensorflow" in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_reader_that_goes_away_leaves_no_traceback():
    command = [sys.executable, "-m", "unetkit", "recipe", "schema"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=300) == 1


def test_public_names_load_on_first_use():
    code = """
import sys, unetkit
assert "unetkit.recipe" not in sys.modules
assert unetkit.read_recipe("name: r\\ndata: {source: emoji}\\ntraining: {images: 9}").name == "r"
assert issubclass(unetkit.RecipeError, unetkit.UserError)
assert callable(unetkit.fit)
from unetkit import fit
assert set(unetkit.__all__) <= set(dir(unetkit))
try:
    unetkit.trian
except AttributeError as error:
    assert "public names" in str(error)
else:
    raise SystemExit("no error")
print(0, *(name for name in ("keras", "tensorflow", "jax") if name in sys.modules), file=sys.stderr)
"""
    assert loaded(code=code) == (0, [])


def test_no_public_name_hides_behind_a_module_of_the_same_name():
    import unetkit

    modules = {path.stem for path in (ROOT / "unetkit").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert not modules & set(unetkit.__all__)


def test_too_little_memory_is_told_without_a_traceback(monkeypatch, capsys):
    from unetkit.cli import app, recipe

    def check(args):
        raise MemoryError("Unable to allocate 3.00 TiB for an array")

    monkeypatch.setattr(recipe, "check", check)
    assert app.main(["recipe", "check", "r.yaml"]) == 1
    assert capsys.readouterr().err.startswith("unetkit: not enough memory here: Unable to allocate 3.00 TiB")
