"""The import ladder of docs/architecture.md as data: which room may import which. Imports inside functions count too."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "unetkit"

# Each room may import itself and these. `errors` and `files` stand below all.
LADDER = {
    "errors": set(),
    "files": set(),
    "shapes": set(),
    "buckets": set(),
    "progress": set(),
    "tables": set(),
    "compiled": set(),
    "compilations": set(),
    "recipe": {"shapes"},
    "runs": {"buckets", "recipe"},
    "data": {"buckets", "recipe", "shapes"},
    "addons": set(),
    "blocks": {"addons", "shapes"},
    "models": {"blocks", "shapes"},
    "objectives": set(),
    "logs": {"recipe", "runs"},
    "evaluate": set(),
    "pictures": set(),
    "backend": set(),
    "testing": {"blocks", "compiled", "models"},
    "keras_hook": {"models"},
    "train": {"addons", "objectives", "runs", "recipe", "backend", "progress"},
    "build": {"models", "objectives", "train", "recipe", "runs", "shapes", "blocks"},
    "fitting": {"backend", "buckets", "callbacks", "recipe", "session", "train"},
    "session": {"build", "compilations", "data", "evaluate", "logs", "pictures", "recipe", "runs", "train", "progress"},
    "inference": {
        "backend",
        "build",
        "compilations",
        "compiled",
        "data",
        "evaluate",
        "pictures",
        "progress",
        "recipe",
        "runs",
        "shapes",
        "tables",
    },
    "bench": {"backend", "compiled", "inference", "shapes", "tables"},
    "tpu": {"backend", "build", "data", "models", "objectives", "recipe", "runs", "shapes", "train"},
    "doctor": {"backend", "fitting", "runs", "tpu", "train"},
    "callbacks": {"compilations", "tpu", "runs", "pictures", "recipe", "shapes"},
}
ABOVE = {"cli", "__init__", "__main__"}


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Rooms that a file imports. `from unetkit import x` means room x."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("unetkit.")}
        elif isinstance(node, ast.ImportFrom) and node.module == "unetkit":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unetkit."):
            found.add(node.module.split(".")[1])
    return found


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=[str(p.relative_to(PACKAGE)) for p in FILES])
def test_imports_go_one_way(path):
    here = room(path)
    if here in ABOVE:
        return
    assert here in LADDER, f"{here} is a new room: give it a place in the ladder and in docs/architecture.md"
    allowed = LADDER[here] | {here, "errors", "files", "__version__"}
    assert imported(path) <= allowed, f"{here} may not import {sorted(imported(path) - allowed)}"


def test_the_ladder_has_no_cycle():
    done: set[str] = set()
    while left := {r for r in LADDER if r not in done}:
        ready = {r for r in left if LADDER[r] - {r} <= done}
        assert ready, f"a cycle among {sorted(left)}"
        done |= ready


@pytest.mark.parametrize("names", ["unetkit", "unetkit.recipe", "unetkit.runs", "unetkit.data", "unetkit.shapes", "unetkit.cli"])
def test_light_rooms_load_no_engine(names):
    heavy = ["keras", "tensorflow", "jax", "matplotlib"]
    code = f"import sys, {names}; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
