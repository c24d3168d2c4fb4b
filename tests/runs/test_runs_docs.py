"""The Python in docs/runs.md runs, and its example of a refusal is what is printed."""

import re
from pathlib import Path

import numpy as np
import pytest

from unetkit import runs
from unetkit.errors import UserError

PAGE = (Path(__file__).parents[2] / "docs" / "runs.md").read_text(encoding="utf-8")


@pytest.fixture
def emoji(tmp_path, monkeypatch, recipe):
    monkeypatch.chdir(tmp_path)
    with runs.RunFolder.open("runs/emoji", recipe()) as run:
        run.log.write({"step": 1, "images": 10, "val_psnr": 12.5})
        run.save(1, 10, {"weights": {"head/conv/kernel": np.zeros((1, 1, 8, 3), np.float32)}}, {"metrics": {"psnr": 12.5}})


def test_the_examples_run(emoji, capsys):
    scope = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    for block in blocks:
        exec(block, scope)
    assert len(blocks) == 2 and scope["psnr"] == [(10, 12.5)]
    assert capsys.readouterr().out == "1 {'psnr': 12.5} (1, 1, 8, 3)\n"


def test_the_refusal_is_the_one_on_the_page(emoji, recipe):
    with pytest.raises(UserError) as error:
        runs.RunFolder.open("runs/emoji", recipe({"optimizer.learning_rate": 0.0003}))
    assert str(error.value) in PAGE


def test_every_free_key_is_on_the_page():
    for key in runs.changes.FREE_KEYS:
        assert f"`{key}`" in PAGE, key
