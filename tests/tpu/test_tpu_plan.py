"""Which packing `lowering: auto` takes, and that it is decided before a network is built."""

import pytest

from unetkit import build, recipe
from unetkit.callbacks import resolve_lowering
from unetkit.errors import UserError
from unetkit.tpu import environment, packing_plan
from unetkit.tpu.answer import Answer, Step

RECIPE = {"name": "r", "data": {"source": "emoji", "size": 64}, "training": {"images": 100, "batch": 128}}
ORIGINAL = {"preset": "original", "start_ch": 16, "depth": 3, "lowering": "auto"}


def read(**model):
    return recipe.read({**RECIPE, "model": ORIGINAL | model})


def answer(ms, source="compiled", fits=True) -> Answer:
    return Answer(
        name="r", chip="v2-8", chips=4, cores=8, replicas=8, global_batch=128, per_core_batch=16, source=source, program="jax",
        fits=fits, step=Step(estimated_ms=ms),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("channels", "image", "block"),
    [
        (16, (256, 256), (2, 4)),
        (32, (256, 256), (2, 2)),
        (48, (256, 256), (1, 2)),
        (64, (256, 256), (1, 2)),
        (65, (256, 256), (1, 1)),
        (3, (256, 256), (2, 4)),  # never more than eight pixels
        (16, (3, 256), (1, 8)),  # three rows are not two and two
        (16, (5, 7), (1, 1)),
        (16, (1024,), (8,)),
    ],
)
def test_a_block_fills_the_lanes_with_pixels_that_divide_the_image(channels, image, block):
    assert packing_plan.filling_block(channels, image) == block


def test_candidates_pack_all_levels_with_room_in_the_lanes_or_the_outer_ones_only():
    assert packing_plan.candidates(read()) == [((2, 4), (2, 2), (1, 2)), ((2, 4), (2, 2)), ((2, 4),)]
    assert packing_plan.candidates(read(start_ch=128)) == []
    levels = recipe.read({**RECIPE, "model": {"levels": [64, 128]}})
    assert packing_plan.candidates(levels) == [((1, 2),)]


def test_the_fastest_plan_wins_and_plain_wins_a_tie():
    assert packing_plan.fastest([answer(3.0), answer(2.0), answer(1.0)]) == 2
    assert packing_plan.fastest([answer(1.0), answer(1.0), answer(1.5)]) == 0


def test_a_plan_that_was_not_compiled_or_does_not_fit_is_never_taken():
    slow, refused = answer(3.0), answer(None, source="compiler_oom", fits=False)
    assert packing_plan.fastest([slow, refused, answer(1.0, source="model")]) == 0
    assert packing_plan.fastest([refused, answer(2.0)]) == 1


def test_auto_is_plain_where_no_tpu_is_attached_and_says_so(capsys, monkeypatch):
    monkeypatch.delenv("TPU_ACCELERATOR_TYPE", raising=False)
    resolved = resolve_lowering(read())
    assert (resolved.model.lowering, resolved.model.packing) == ("plain", ())
    assert "auto is plain: packing is for TPUs, and none is attached" in capsys.readouterr().err


def test_auto_is_plain_without_a_compiler_and_says_so(capsys, monkeypatch):
    def missing():
        raise environment.CompilerMissing("unetkit analysis setup")

    monkeypatch.setattr(environment, "find_interpreter", missing)
    assert resolve_lowering(read(), "v2-8").model.lowering == "plain"
    assert "only the compiler knows whether packing is faster. unetkit analysis setup" in capsys.readouterr().err


def test_what_is_not_auto_is_left_as_it_is():
    packed = read(lowering="packed", packing=[[2, 4]])
    assert resolve_lowering(packed, "v2-8") is packed


def test_a_network_is_not_built_before_auto_is_decided():
    with pytest.raises(UserError, match=r"unetkit\.callbacks\.resolve_lowering does"):
        build.network(read())


def test_a_recipe_with_a_packing_builds_a_packed_network():
    net = build.network(packing_plan.with_packing(read(), ((2, 4), (1, 2))))
    assert net.packing == ((2, 4), (1, 2))
    assert build.network(build.unpacked(packing_plan.with_packing(read(), ((2, 4),)))).packing == ()
