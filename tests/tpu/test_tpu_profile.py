"""Time by operation and category: cycles where there are any, the rule where there are none, nothing dropped."""

import pytest

from unetkit.tpu import hlo, profile, timing, uncounted
from unetkit.tpu.chips import chip

V2 = chip("v2-8")

PROGRAM = """HloModule timed, is_scheduled=true

%body (p: (s32[], f32[8,128])) -> (s32[], f32[8,128]) {
  %p = (s32[], f32[8,128]{1,0:T(8,128)}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %x = f32[8,128]{1,0:T(8,128)} get-tuple-element(%p), index=1
  %twice = f32[8,128]{1,0:T(8,128)} fusion(%x), kind=kLoop, calls=%add_up, backend_config={"estimated_cycles":"100"}
  ROOT %t = (s32[], f32[8,128]{1,0:T(8,128)}) tuple(%i, %twice)
}

%condition (p: (s32[], f32[8,128])) -> pred[] {
  %p = (s32[], f32[8,128]{1,0:T(8,128)}) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %three = s32[] constant(3)
  ROOT %less = pred[] compare(%i, %three), direction=LT
}

%add_up (a: f32[8,128]) -> f32[8,128] {
  %a = f32[8,128]{1,0:T(8,128)} parameter(0)
  ROOT %sum = f32[8,128]{1,0:T(8,128)} add(%a, %a)
}

%a_slice (a: f32[64,128]) -> f32[8,128] {
  %a = f32[64,128]{1,0:T(8,128)} parameter(0)
  ROOT %part = f32[8,128]{1,0:T(8,128)} slice(%a), slice={[0:8], [0:128]}
}

ENTRY %main (w: f32[8,128], big: f32[64,128]) -> f32[8,128] {
  %w = f32[8,128]{1,0:T(8,128)} parameter(0)
  %big = f32[64,128]{1,0:T(8,128)} parameter(1)
  %fetch = (f32[8,128]{1,0:T(8,128)S(1)}, f32[8,128]{1,0:T(8,128)}, u32[]) copy-start(%w)
  %work = f32[8,128]{1,0:T(8,128)} fusion(%big), kind=kLoop, calls=%a_slice, backend_config={"estimated_cycles":"7000"}
  %fetched = f32[8,128]{1,0:T(8,128)S(1)} copy-done(%fetch)
  %zero = s32[] constant(0)
  %start = (s32[], f32[8,128]{1,0:T(8,128)}) tuple(%zero, %w)
  %loop = (s32[], f32[8,128]{1,0:T(8,128)}) while(%start), condition=%condition, body=%body
  %out = f32[8,128]{1,0:T(8,128)} get-tuple-element(%loop), index=1
  %summed = f32[8,128]{1,0:T(8,128)} all-reduce(%out), replica_groups={}, to_apply=%add_up
  ROOT %scattered = f32[8,128]{1,0:T(8,128)} select-and-scatter(%summed, %out, %zero)
}
"""


@pytest.fixture(scope="module")
def timed():
    module = hlo.parse(PROGRAM)
    return {t.instruction.name: t for t in timing.time_operations(module, V2)}


def test_cycles_are_taken_over_the_clock(timed):
    assert timed["work"].seconds == pytest.approx(7000 / 0.7e9)
    assert timed["work"].estimated_from == "cycles"


def test_a_loop_counts_its_body_as_often_as_it_runs(timed):
    assert timed["twice"].runs == 3
    assert timed["twice"].seconds == pytest.approx(3 * 100 / 0.7e9)


def test_what_has_no_cycles_is_estimated_and_said_to_be(timed):
    scattered = timed["scattered"]
    assert scattered.estimated_from == "bytes"
    read_and_written = 2 * 4096 + 4 + 4096  # two arrays and a scalar in, one array out
    assert scattered.seconds == pytest.approx(read_and_written / 350e9)
    assert timed["summed"].estimated_from == "links"
    assert timed["summed"].seconds == uncounted.collective_seconds("all-reduce", 4096, 8192, V2)


def test_a_transfer_hidden_behind_work_takes_no_time(timed):
    assert timed["fetched"].seconds == 0.0
    assert timed["fetched"].moved_bytes == 4096


def test_of_a_sliced_operand_only_the_slice_is_read(timed):
    assert timed["work"].moved_bytes == 2 * 4096


def test_names_and_views_take_no_time(timed):
    assert set(timed) == {"work", "fetched", "twice", "summed", "scattered"}


@pytest.mark.parametrize(
    ("fused", "kind", "name"),
    [
        ("%c = f32[8,8] convolution(%p, %p), dim_labels=bf_io->bf", "kOutput", "convolution"),
        ("%c = f32[8,8] convolution(%p, %p), dim_labels=bf_io->bf\n  %r = bf16[8,8] convert(%c)", "kOutput", "convolution"),
        ("%c = f32[8,8] convolution(%p, %p), dim_labels=bf_io->bf\n  %r = f32[8,8] maximum(%c, %p)", "kOutput", "output fusion"),
        ("%r = f32[8,8] reduce-window(%p, %p), window={size=2x2}", "kOutput", "reduce-window"),
        ("%r = f32[8,8] add(%p, %p)", "kLoop", "loop fusion"),
        ("%r = f32[8] reduce(%p, %p), dimensions={0}", "kInput", "input fusion"),
        ("%r = f32[8,8] transpose(%p), dimensions={1,0}", "kLoop", "data formatting"),
    ],
)
def test_a_fusion_gets_the_word_that_xprof_shows(fused, kind, name):
    lines = "\n  ".join(["%p = f32[8,8] parameter(0)", *fused.split("\n  ")])
    text = f"HloModule m\n\n%f (p: f32[8,8]) -> f32[8,8] {{\n  {lines}\n}}\n\nENTRY %e (p: f32[8,8]) -> f32[8,8] {{\n"
    module = hlo.parse(text + f"  %p = f32[8,8] parameter(0)\n  ROOT %o = f32[8,8] fusion(%p), kind={kind}, calls=%f\n}}\n")
    assert profile.category(module, module.entry.root) == name


@pytest.mark.parametrize(("opcode", "name"), [("copy", "data formatting"), ("all-reduce", "all-reduce"), ("add", "non-fusion elementwise")])
def test_a_bare_operation_gets_the_word_that_xprof_shows(opcode, name):
    module = hlo.parse(
        f"HloModule m\n\nENTRY %e (p: f32[8]) -> f32[8] {{\n  %p = f32[8] parameter(0)\n  ROOT %o = f32[8] {opcode}(%p)\n}}\n"
    )
    assert profile.category(module, module.entry.root) == name


@pytest.mark.parametrize("name", ["original_v2", "original_v2_tensorflow", "unet_v5e_accumulate"])
def test_shares_of_a_recorded_step_add_up(recorded, name):
    lowered, record, where = recorded(name)
    module = hlo.parse(record.program)
    timed = timing.time_operations(module, where)
    found = profile.profile(module, timed, where, frozenset(lowered.layers) or None)
    for rows in (found.categories, found.levels):
        assert sum(row.time_share for row in rows) == pytest.approx(1.0)
    assert sum(row.ms for row in found.categories) == pytest.approx(found.seconds * 1e3)
    assert 0.0 < found.estimated_from_bytes_share < 0.2
    for row in found.operations:
        if row.parts:
            assert sum(part.share for part in row.parts) == pytest.approx(1.0)


def test_the_recorded_net_spends_its_time_where_its_layers_are(recorded):
    _, record, where = recorded("original_v2")
    module = hlo.parse(record.program)
    found = profile.profile(module, timing.time_operations(module, where), where)
    shares = {(row.name, row.in_pass): row.time_share for row in found.levels}
    assert shares["level 0", "backward"] > shares["level 0", "forward"] > shares["bottom", "forward"]
    named = {row.name for row in found.categories}
    assert {"output fusion", "loop fusion", "convolution", "select-and-scatter", "all-reduce", "reduce-window"} <= named
    top = found.operations[0]
    assert top.layer and top.parts[0].opcode == "convolution" and top.parts[0].flops == top.flops
    assert found.cycles / where.clock_hz == pytest.approx(found.seconds * (1 - found.estimated_from_bytes_share))


def test_no_recorded_convolution_beats_the_bound_that_is_shown_for_it(recorded):
    for name in ("original_v2", "unet_v5e_accumulate"):
        _, record, where = recorded(name)
        module = hlo.parse(record.program)
        found = profile.profile(module, timing.time_operations(module, where), where)
        bound = [(row.flops_utilization, row.parts[0].fill) for row in found.operations if row.parts and row.parts[0].fill]
        assert bound and all(used <= fill for used, fill in bound)


def test_accumulation_runs_its_loop(recorded):
    """Four micro-batches: the convolutions of the last three, in a loop, are those of the first again."""
    _, record, where = recorded("unet_v5e_accumulate")
    module = hlo.parse(record.program)
    timed = timing.time_operations(module, where)
    once = sum(t.flops for t in timed if t.inside is module.entry)
    looped = sum(t.flops for t in timed if t.inside is not module.entry)
    assert looped == pytest.approx(3 * once) and once > 0
