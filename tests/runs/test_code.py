"""A run folder that names code is opened only when its reader says so."""

import dataclasses
import subprocess
import sys

import pytest

from unetkit import runs
from unetkit.errors import UserError
from unetkit.recipe import schema
from unetkit.runs.code import CODE_KEYS

RECIPE = {
    "name": "a:b",
    "model": {"block": "evil.blocks:Mine", "block_args": {"use": 3}},
    "training": {"callbacks": [{"use": "keras_tools:Watch", "args": {}}, {"use": "more.tools:Look"}]},
}


def test_every_place_that_names_code_is_found():
    assert runs.code_names(RECIPE) == {
        "model.block": "evil.blocks:Mine",
        "training.callbacks[0].use": "keras_tools:Watch",
        "training.callbacks[1].use": "more.tools:Look",
    }


def test_code_is_refused_until_it_is_allowed(tmp_path):
    with pytest.raises(UserError, match=r"(?s)names code that opening it would import.*model\.block: evil\.blocks:Mine.*--allow-code"):
        runs.require_code_allowed(RECIPE, tmp_path, allow_code=False)
    runs.require_code_allowed(RECIPE, tmp_path, allow_code=True)


def test_a_recipe_of_our_own_parts_needs_no_leave(tmp_path, recipe):
    with runs.RunFolder.open(tmp_path / "r", recipe()) as run:
        runs.require_code_allowed(run.recipe, run.path, allow_code=False)


def test_every_key_of_the_schema_that_takes_a_class_is_known():
    sections = [cls for cls in vars(schema).values() if dataclasses.is_dataclass(cls) and isinstance(cls, type)]
    naming = {f.name for cls in sections for f in dataclasses.fields(cls) if "package.module:Class" in f.metadata.get("help", "")}
    assert naming == CODE_KEYS


def test_the_room_loads_neither_keras_nor_an_engine():
    program = "import sys, unetkit.runs; print([m for m in ('keras', 'tensorflow', 'jax') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
