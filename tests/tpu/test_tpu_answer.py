"""The schema of an answer survives JSON, and docs/inspect.md names all of it."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from unetkit.tpu import answer as A


def test_an_answer_survives_json_unchanged():
    part = A.Part(opcode="convolution", kind="convolution", shape="f32[8,8]", layer="down_0/block0/conv1", flops=10.0, share=0.9)
    whole = A.Answer(
        name="n", chip="v2-8", chips=4, cores=8, replicas=8, global_batch=128, per_core_batch=16, source="compiled", program="jax",
        image=(256, 256), hbm=A.Hbm(limit_bytes=8, peak_bytes=4), step=A.Step(estimated_ms=1.5),
        operations=(A.Operation(name="fusion.1", category="output fusion", ms=1.0, time_share=0.5, shape="f32[8]", parts=(part,)),),
        buffers=(A.Buffer(kind="activation", shape="f32[8]", layout=None, unpadded_bytes=32, padded_bytes=64),),
        curve=A.Curve(positions=(0, 1), padded_bytes=(1, 2), unpadded_bytes=(1, 1), instructions=("a", "b"), peak=1),
        versions={"jax": "0.10.2"},
    )  # fmt: skip
    assert A.Answer.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole


def test_an_unknown_key_is_refused():
    with pytest.raises(TypeError, match="surprise"):
        A.Answer.from_dict({"surprise": 1})


def test_expansion_of_an_empty_buffer_is_unknown():
    empty = A.Buffer(kind="other", shape="f32[0]", layout=None, unpadded_bytes=0, padded_bytes=0)
    assert empty.expansion is None
    assert A.Buffer(kind="other", shape="f32[8]", layout=None, unpadded_bytes=32, padded_bytes=64).expansion == 2.0


def test_the_page_names_every_key_and_no_other():
    page = (Path(__file__).parents[2] / "docs/inspect.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", page, re.M)
    assert {key for row, _ in rows for key in row.split(", ") if "[]" not in key} == names(A.Answer)
    sections = {
        "hbm": A.Hbm, "padding": A.Padding, "step": A.Step, "categories": A.Category, "operations": A.Operation,
        "operations[].parts": A.Part, "levels": A.Level, "buffers": A.Buffer, "curve": A.Curve, "advice": A.Advice,
    }  # fmt: skip
    for row, section in sections.items():
        assert set(re.search("`([^`]+)`", dict(rows)[row])[1].split(", ")) == names(section), row


def names(section) -> set[str]:
    return {field.name for field in dataclasses.fields(section)}
