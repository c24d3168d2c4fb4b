"""docs/from-tensorflow-addons.md: its code runs, and every name on its right-hand side exists."""

import importlib
import re
from pathlib import Path

import pytest

from unetkit import addons

PAGE = (Path(__file__).parents[2] / "docs" / "from-tensorflow-addons.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`((?:unetkit\.addons|keras)(?:\.\w+)+)`", PAGE)))


def test_the_code_of_the_page_runs():
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
    made = {}
    exec(code, made)
    assert made["turned"].shape == (2, 2)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_page_exists(name):
    module, _, attribute = name.rpartition(".")
    assert callable(getattr(importlib.import_module(module), attribute))


def test_every_public_name_is_on_the_page_under_its_old_one():
    for room in (addons.image, addons.layers, addons.optimizers):
        for name in room.__all__:
            short = room.__name__.rpartition(".")[2]
            assert f"| `{short}.{name}` | `{room.__name__}.{name}` |" in PAGE
