"""Reading optimised HLO text: instructions, FLOPs, and the recorded programs of our own."""

import pytest

from unetkit.errors import UserError
from unetkit.tpu import hlo

MODULE = """HloModule little, is_scheduled=true, num_partitions=8

%inner (p0: f32[2,4,4,3], p1: f32[3,3,3,5]) -> f32[2,4,4,5] {{
  %p0 = f32[2,4,4,3]{{3,2,1,0:T(4,128)}} parameter(0)
  %p1 = f32[3,3,3,5]{{3,2,1,0:T(4,128)}} parameter(1)
  ROOT %conv = {conv}
}}

ENTRY %main (a: f32[2,4,4,3], b: f32[3,3,3,5]) -> f32[2,4,4,5] {{
  %a = f32[2,4,4,3]{{3,2,1,0:T(4,128)}} parameter(0), metadata={{op_name="state[\\'kernel\\'][0]"}}
  %b = f32[3,3,3,5]{{3,2,1,0:T(4,128)}} parameter(1)
  ROOT %fusion.1 = f32[2,4,4,5]{{3,2,1,0:T(8,128)}} fusion(%a, /*index=1*/%b), kind=kOutput, calls=%inner, {more}
}}
"""
MORE = (
    'metadata={op_name="jit(f)/conv (1)/x"}, backend_config={"window_config":{"estimated_cycles":"1234"},'
    '"convolution_algorithm_config":{"emitter":"EmitAllBatchInSublanes"}}'
)

SAME = "f32[2,4,4,5] convolution(%p0, %p1), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"


def flops(conv: str) -> float:
    module = hlo.parse(MODULE.format(conv=conv, more=MORE))
    return module.flops(module.entry.root, module.entry)


def test_an_instruction_carries_what_the_compiler_wrote():
    module = hlo.parse(MODULE.format(conv=SAME, more=MORE))
    fusion = module.entry.root
    assert (module.name, module.partitions, module.replicas) == ("little", 8, 1)
    assert (fusion.name, fusion.opcode, fusion.fusion_kind, fusion.operands) == ("fusion.1", "fusion", "kOutput", ("a", "b"))
    assert (fusion.cycles, fusion.emitter, fusion.op_name) == (1234, "EmitAllBatchInSublanes", "jit(f)/conv (1)/x")
    assert fusion.arrays[0].padded_bytes == 2 * 4 * 8 * 128 * 4
    assert module.entry.instructions["a"].op_name == "state['kernel'][0]"
    assert module.computations["inner"].parameters()[1].name == "p1"


def test_a_same_convolution_counts_only_positions_inside_the_image():
    # of 4 x 3 (output, kernel) positions along an axis, 10 meet a real pixel
    assert flops(SAME) == 2 * 2 * 3 * 5 * 10 * 10


def test_zeros_of_a_transposed_convolution_do_not_count():
    conv = "f32[2,8,8,5] convolution(%p0, %p1), window={size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1}, dim_labels=b01f_01io->b01f"
    # every real pixel meets every kernel position once, but one at the border
    assert flops(conv) == 2 * 2 * 3 * 5 * 11 * 11


def test_a_strided_convolution_counts_its_outputs():
    conv = "f32[2,2,2,5] convolution(%p0, %p1), window={size=3x3 pad=0_1x0_1 stride=2x2}, dim_labels=b01f_01io->b01f"
    assert flops(conv) == 2 * 2 * 3 * 5 * 5 * 5


def test_groups_divide_the_batch_of_a_weight_gradient():
    conv = "f32[1,2,2,5] convolution(%p0, %p1), window={size=3x3}, dim_labels=b01f_01io->b01f, batch_group_count=2"
    assert flops(conv) == 2 * 1 * 3 * 5 * 6 * 6


def test_a_matrix_product_counts_its_contraction():
    dot = "f32[2,4,4,5] dot(%p0, %p1), lhs_contracting_dims={1,3}, rhs_contracting_dims={0,2}"
    assert flops(dot) == 2 * (2 * 4 * 4 * 5) * 4 * 3


@pytest.mark.parametrize("text", ["", "no module at all", "HloModule empty\n"])
def test_other_text_is_refused(text):
    with pytest.raises(UserError, match="expected"):
        hlo.parse(text)


def test_recorded_convolutions_match_the_layers(recorded):
    """The three matrix products of each convolution: forward, gradient of the kernel, gradient of the input."""
    lowered, record, _ = recorded("original_v2")
    module = hlo.parse(record.program)
    found = sum(module.flops(i, module.entry) for i in module.entry)

    def same(side: int, inputs: int, outputs: int) -> float:
        return 2 * lowered.per_core_batch * (3 * side - 2) ** 2 * inputs * outputs

    levels = [(32, 3, 8), (32, 8, 8), (16, 8, 16), (16, 16, 16), (32, 16, 8), (32, 8, 8)]
    up = 2 * lowered.per_core_batch * (3 * 16 - 1) ** 2 * 16 * 8
    head = 2 * lowered.per_core_batch * 32 * 32 * 8 * 3
    expected = 3 * (sum(same(*level) for level in levels) + up + head) - same(*levels[0])  # nobody wants the image's gradient
    assert found == pytest.approx(expected, rel=1e-9)
