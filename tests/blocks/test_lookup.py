"""From names to classes: shipped ones, your own, and what is told about names that lead nowhere."""

import sys

import pytest

from unetkit.blocks import Block, ConvBlock, Level, NearestConv
from unetkit.blocks.lookup import BLOCKS, DOWNSAMPLERS, UPSAMPLERS, find_class, name_of, refuse_unloaded_code
from unetkit.errors import UserError


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """A module of the user's, importable but not imported."""
    (tmp_path / "their_blocks.py").write_text(
        "from unetkit.blocks import ConvBlock\n\n\nclass Mine(ConvBlock):\n    pass\n\n\nnumber = 3\n"
    )
    (tmp_path / "broken_blocks.py").write_text("import a_package_that_is_missing\n")
    (tmp_path / "raising_blocks.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("their_blocks", "broken_blocks", "raising_blocks"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("kind", "shipped"), [("block", BLOCKS), ("down", DOWNSAMPLERS), ("up", UPSAMPLERS)])
def test_shipped_names_lead_to_their_classes_and_back(kind, shipped):
    for name, cls in shipped.items():
        assert find_class(kind, name) is cls
        assert find_class(kind, cls) is cls
        assert name_of(kind, cls) == name


def test_your_own_class_is_found_by_module_and_name(user_module):
    found = find_class("block", "their_blocks:Mine")
    assert issubclass(found, ConvBlock)
    assert name_of("block", found) == "their_blocks:Mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cnv", "'cnv' is neither conv, modulated nor package.module:Class. Did you mean 'conv'?"),
        ("their_blocks.Mine", "neither conv, modulated nor package.module:Class"),
        ("no_such_module:Mine", "Python finds no module 'no_such_module'. Start in its folder, or install it."),
        ("their_blocks:Mone", "their_blocks has no Mone. Did you mean 'Mine'?"),
        ("their_blocks:number", "is 3, which is not a subclass of unetkit.blocks.Block"),
        ("broken_blocks:Mine", "importing broken_blocks failed: No module named 'a_package_that_is_missing'"),
        ("raising_blocks:Mine", "importing raising_blocks failed: ZeroDivisionError"),
    ],
)
def test_a_name_that_leads_nowhere_says_why(user_module, name, message):
    with pytest.raises(UserError) as refusal:
        find_class("block", name)
    assert message in str(refusal.value)


def test_a_class_of_another_kind_is_refused():
    with pytest.raises(UserError, match=r"which is not a subclass of unetkit\.blocks\.Block"):
        find_class("block", NearestConv)


def test_a_saved_name_is_not_imported_for_its_file(user_module):
    with pytest.raises(UserError, match="If you trust it, `import their_blocks` first"):
        Level.from_config({"channels": 4, "block": "their_blocks:Mine"})
    assert "their_blocks" not in sys.modules
    find_class("block", "their_blocks:Mine")
    refuse_unloaded_code("block", "their_blocks:Mine")
    assert Level.from_config({"channels": 4, "block": "their_blocks:Mine"}).block == "their_blocks:Mine"


class TakesNoSettings(Block):
    def __init__(self, channels, width=2, name=None, dtype=None):
        super().__init__(channels, name=name, dtype=dtype)


@pytest.mark.parametrize(
    ("block", "block_args", "message"),
    [
        (ConvBlock, {"kernel_sise": 5}, "conv: no argument 'kernel_sise'. Did you mean 'kernel_size'?"),
        (TakesNoSettings, {"norm": "none"}, "no argument 'norm'.* A block takes the model's settings as [*][*]settings"),
    ],
)
def test_arguments_that_a_block_does_not_take_are_refused(block, block_args, message):
    with pytest.raises(UserError, match=message):
        Level(4, block=block, block_args=block_args)
