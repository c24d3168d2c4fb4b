"""Out-of-memory texts of every form that compilers and runtimes print."""

import json

import pytest

from unetkit.errors import UserError
from unetkit.tpu import oom

MIB, GIB = 2**20, 2**30

PROGRAM = """\
Compilation failure: Ran out of memory in memory space hbm. Used 17.60G of 16.00G hbm. Exceeded hbm capacity by 1.60G.

Total hbm usage >= 17.60G:
    reserved        528.00M
    program          17.08G
    arguments       unknown size

Output size unknown.

Program hbm requirement 17.08G:
    reserved          12.0K
    global           980.0K
    scoped            5.41M
    HLO temp         17.08G (33.1% utilization: Unpadded (6.40G) Padded (19.32G), 0.7% fragmentation (120.31M))

  Largest program allocations in hbm:

  1. Size: 512.00M
     Operator: op_type="OneHot" op_name="one_hot"
     Shape: f32[4,128,128,9,18]{4,3,0,2,1:T(8,128)}
     Unpadded size: 40.50M
     Extra memory due to padding: 471.50M (12.6x expansion)
     XLA label: %fusion.7 = f32[4,128,128,9,18]{4,3,0,2,1:T(8,128)} fusion(s32[4,128,128,9]{3,0,2,1:T(4,128)} %copy.1), kind=kLoop
     Allocation type: HLO temp
     ==========================

  2. Size: 256.00M
     Operator: op_type="Conv2D" op_name="gradients/up_0/block0/conv1/Conv2D"
     Shape: bf16[4,512,512,64]{3,0,2,1:T(4,128)(2,1)}
     Unpadded size: 128.00M
     Extra memory due to padding: 128.00M (2.0x expansion)
     XLA label: %fusion.8 = (bf16[4,512,512,64]{3,0,2,1:T(4,128)(2,1)}, f32[64]{0:T(256)}) fusion(f32[4,512]{1,0} %p), kind=kOutput
     Allocation type: HLO temp
     ==========================

  3. Size: 192.00M
     Operator: op_type="Relu" op_name="down_0/block0/relu"
     Shape: f32[24,128,128,128]{3,0,2,1:T(8,128)}
     Unpadded size: 192.00M
     XLA label: %fusion.9 = f32[24,128,128,128]{3,0,2,1:T(8,128)} fusion(f32[4,512]{1,0} %p), kind=kLoop
     Allocation type: HLO temp
     ==========================
"""

ONE_LINE = (
    'Size: 256.00M / Operator: op_type="Conv2D" op_name="a/b/Conv2D" / Shape: bf16[4,512,512,64]{3,0,2,1:T(4,128)(2,1)} / '
    "Unpadded size: 128.00M / Extra memory due to padding: 128.00M (2.0x expansion)"
)


def test_a_compilers_refusal_with_its_list_is_read_in_full():
    said = oom.explain(PROGRAM)
    assert (said.refused, said.space) == ("program", "hbm")
    assert (said.required_bytes, said.available_bytes) == (round(17.60 * GIB), 16 * GIB)
    assert said.exceeded_bytes == said.required_bytes - 16 * GIB
    assert [(s.name, s.bytes) for s in said.sections] == [
        ("reserved", 528 * MIB),
        ("program", round(17.08 * GIB)),
        ("reserved", 12 * 2**10),
        ("global", 980 * 2**10),
        ("scoped", round(5.41 * MIB)),
        ("HLO temp", round(17.08 * GIB)),
    ]
    assert said.padding_of == "all temporaries"
    assert said.padding.peak_padded_bytes == round(19.32 * GIB)
    assert said.padding.ratio == pytest.approx(19.32 / 6.40, rel=1e-3)
    assert [(b.shape, b.layout, b.unpadded_bytes / MIB, b.padded_bytes / MIB, b.kind) for b in said.buffers] == [
        ("f32[4,128,128,9,18]", "{4,3,0,2,1:T(8,128)}", 40.5, 512, "other"),
        ("bf16[4,512,512,64]", "{3,0,2,1:T(4,128)(2,1)}", 128, 256, "gradient"),
        ("f32[24,128,128,128]", "{3,0,2,1:T(8,128)}", 192, 192, "other"),
    ]
    assert [(b.layer, b.instruction) for b in said.buffers][1] == ("gradients/up_0/block0/conv1/Conv2D", "fusion.8")


def test_every_advice_lowers_the_number_it_names():
    said = oom.explain(PROGRAM)
    assert said.advice
    assert all(a.after < a.before for a in said.advice)
    texts = " ".join(a.text for a in said.advice)
    assert "f32[4,128,128,9,18]" in texts and "64 channels lie in 128 lanes" in texts and "bfloat16" in texts and "90 %" in texts


@pytest.mark.parametrize(
    ("text", "refused", "need", "have", "module"),
    [
        (
            "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for HLO temporaries "
            "(21.32G) exceeds available HBM (7.48G). HLO module: jit_step.\nSee https://openxla.org/xla/errors/error_1000",
            "temporaries", 21.32 * GIB, 7.48 * GIB, "jit_step",
        ),
        (
            "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 49.34G of 32.00G hbm. "
            "Exceeded hbm capacity by 17.34G.",
            "program", 49.34 * GIB, 32 * GIB, None,
        ),
        ("RESOURCE_EXHAUSTED: TPU TensorCore Hbm usage: 34.82G, SparseCore Hbm usage 174.10G, exceeding available bytes: 95.74G",
         "cores", 34.82 * GIB, 95.74 * GIB, None),
        ("Resource exhausted: Attempting to reserve 3.95G at the bottom of memory. That was not possible. There are 1.92G free, 0B "
         "reserved, and 1.92G reservable.", "load", 3.95 * GIB, 1.92 * GIB, None),
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Error loading program 'jit_train_step': Attempting to reserve 29.49G at the bottom of "
         "memory. That was not possible. There are 147.64M free, 0B reserved, and 147.64M reservable. Scope: unknown..",
         "load", 29.49 * GIB, 147.64 * MIB, "jit_train_step"),
        ("ValueError: RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate 8.00M. That was not possible. There "
         "are 6.43M free.; (0x0x1_HBM0)", "allocation", 8 * MIB, 6.43 * MIB, None),
    ],
)  # fmt: skip
def test_short_refusals_are_read(text, refused, need, have, module):
    said = oom.explain(text)
    assert (said.refused, said.module) == (refused, module)
    assert (said.required_bytes, said.available_bytes) == (round(need), round(have))
    assert said.buffers == () and said.padding.ratio is None
    for line in said.advice:
        assert line.after <= said.available_bytes < line.before


def test_vmem_is_told_from_hbm():
    said = oom.explain("Ran out of memory in memory space vmem. Used 20.50M of 16.00M vmem. Exceeded vmem capacity by 4.50M.")
    assert (said.space, said.required_bytes) == ("vmem", round(20.5 * MIB))


def test_one_allocation_on_one_line_is_read():
    said = oom.explain(ONE_LINE)
    (buffer,) = said.buffers
    assert (said.refused, said.padding_of, said.padding.ratio) == (None, "the listed buffers", 2.0)
    assert (buffer.padded_bytes, buffer.unpadded_bytes, buffer.layer) == (256 * MIB, 128 * MIB, "a/b/Conv2D")


def _logged(line):
    return f"2020-05-04 09:05:40.721128: E    1578 tensorflow/compiler/xla/xla_client/xla_util.cc:76] {line}"


@pytest.mark.parametrize(
    "wrap",
    [
        lambda text: "\n".join(map(_logged, text.splitlines())),
        lambda text: "\n".join(f"E1111 07:35:00.272763 140408571025152 error_handling.py:81] {line}" for line in text.splitlines()),
        lambda text: "\n".join(f"> {line}" for line in text.splitlines()),
        lambda text: 'Traceback (most recent call last):\n  File "train.py", line 3\n' + text + "\nsome other line\n",
        lambda text: repr(text),
    ],
    ids=["tensorflow log", "absl log", "quoted mail", "traceback", "repr"],
)
def test_log_prefixes_do_not_matter(wrap):
    assert oom.explain(wrap(PROGRAM)) == oom.explain(PROGRAM)


def test_stated_sizes_count_where_no_tile_is_printed():
    said = oom.explain(
        '  1. Size: 8.00G\n     Operator: op_type="CrossReplicaSum" op_name="tpu/CrossReplicaSum"\n'
        "     Shape: f32[256,512,128,2]{3,2,1,0}\n     Unpadded size: 128.00M\n"
        "     Extra memory due to padding: 7.88G (64.0x expansion)\n     Allocation type: HLO temp\n"
    )
    (buffer,) = said.buffers
    assert (buffer.padded_bytes, buffer.unpadded_bytes, buffer.expansion) == (8 * GIB, 128 * MIB, 64.0)


def test_a_long_array_with_a_short_last_dimension_is_better_transposed():
    said = oom.explain("1. Size: 14.00G\n   Shape: s32[29360128,10]{1,0:T(8,128)}\n   Unpadded size: 1.09G\n")
    (line,) = said.advice
    assert line.before == 14 * GIB
    assert line.after == 29360128 * 16 * 4
    assert "s32[29360128,10]{0,1:T(8,128)}" in line.text


def test_a_batch_just_above_a_multiple_of_eight_is_told():
    said = oom.explain("1. Size: 96.00M\n   Shape: bf16[17,128,128,128]{3,0,2,1:T(8,128)(2,1)}\n   Unpadded size: 68.00M\n")
    (line,) = said.advice
    assert (line.before, line.after) == (96 * MIB, 64 * MIB)
    assert "padded to 24" in line.text


def test_a_runtimes_table_of_reservations_is_read():
    said = oom.explain(
        "Attempting to reserve 3.95G at the bottom of memory. That was not possible. There are 1.92G free, 0B reserved, and 1.92G "
        "reservable.;\nHBM capacity 8.00G:\n       Top-of-Memory reserved:  529.00M (     554,696,704 bytes)\n"
        "; attempting reservation for program memory\n\nTotal hbm usage >= 10.94G:\n"
        "    reserved(Infeed/Outfeed/Continuations) 529.00M\n    heap allocations (without fragmentation)   6.08G\n"
        "    program                    4.34G\n\nPersistent allocations include some or all of:\n"
        "    arguments                478.07M (89.4% utilization)\n"
        "    output                     5.06G (71.6% utilization) [may share some memory with arguments]\n\n"
        "Program hbm requirement 4.34G:\n    scoped           17.43M\n"
        "    HLO temp          3.93G (97.4% utilization: Unpadded (3.81G) Padded (3.92G), 0.4% fragmentation (14.68M))\n"
    )
    assert {s.name: round(s.bytes / MIB) for s in said.sections} == {
        "reserved": 529, "heap allocations": 6226, "program": 4444, "arguments": 478, "output": 5181, "scoped": 17, "HLO temp": 4024,
    }  # fmt: skip
    assert said.padding.ratio == pytest.approx(3.92 / 3.81, rel=1e-6)


@pytest.mark.parametrize("text", ["", "OSError: [Errno 28] No space left on device", "Killed\n", "Size: 3 Shape: none"])
def test_other_texts_are_an_error_that_says_what_was_looked_for(text):
    with pytest.raises(UserError, match="looked for 'Ran out of memory in memory space hbm"):
        oom.explain(text)


def test_the_report_is_plain_json():
    plain = json.loads(json.dumps(oom.explain(PROGRAM).to_dict()))
    assert plain["exceeded_bytes"] == round(17.60 * GIB) - 16 * GIB
    assert plain["buffers"][0]["padded_bytes"] == 512 * MIB
