"""What `--xprof` writes, opened by the real XProf: its memory viewer and its categories must be ours."""

import dataclasses
import gzip
import importlib.util
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from unetkit.errors import WorkError
from unetkit.tpu import analyse, hlo, record, xprof
from unetkit.tpu.ask import Program
from unetkit.tpu.chips import chip
from unetkit.tpu.inspection import Inspected
from unetkit.tpu.lower import Argument, Lowered

RECORDS = Path(__file__).parents[1] / "tpu" / "records"
PROTO = Path(__file__).parent / "records" / "original_v2.hlo.pb.gz"

needs_xprof = pytest.mark.skipif(importlib.util.find_spec("xprof") is None, reason="needs the Python package xprof")

# XProf's own code in a process of its own: its library logs to stderr and brings a protobuf of its own.
OPEN = """
import json, sys
from xprof.convert import raw_to_tool_data
space, module = sys.argv[1:]
pages = {}
for tool in ("op_profile", "hlo_stats", "memory_viewer", "roofline_model"):
    data, _ = raw_to_tool_data.xspace_to_tool_data([space], tool, {"module_name": module, "use_saved_result": False})
    pages[tool] = json.loads(data)
print(json.dumps(pages))
"""


def open_in_xprof(run: Path) -> dict:
    (space,), (module,) = run.glob("*.xplane.pb"), run.glob("*.hlo_proto.pb")
    name = module.name.removesuffix(".hlo_proto.pb")
    done = subprocess.run([sys.executable, "-c", OPEN, str(space), name], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout.splitlines()[-1])


def shares(pages: dict) -> dict[str, float]:
    """Share of self time by category, recomputed from XProf's HLO statistics."""
    labels = [column["label"] for column in pages["hlo_stats"]["cols"]]
    category, own = labels.index("HLO op category"), labels.index("Total self time (us)")
    sums: dict[str, float] = defaultdict(float)
    for row in pages["hlo_stats"]["rows"]:
        sums[row["c"][category]["v"]] += row["c"][own]["v"]
    return {name: time / sum(sums.values()) for name, time in sums.items()}


def check_shares(pages: dict, answer) -> None:
    theirs = shares(pages)
    ours = {row.name: row.time_share for row in answer.categories if row.time_share > 0}
    assert theirs.keys() == ours.keys()
    for name, share in ours.items():
        assert theirs[name] == pytest.approx(share, rel=0.01), name


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The recorded compilation of a small U-Net, with the proto it came with."""
    folder = tmp_path_factory.mktemp("record")
    for file in (RECORDS / "original_v2").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "module.hlo.pb.gz").write_bytes(PROTO.read_bytes())
    plain = json.loads((folder / "lowered.json").read_text())
    where = chip(plain.pop("chip"))
    arguments = {key: Argument(**what) for key, what in plain.pop("arguments").items()}
    program = Program(code=b"", **plain.pop("program"))
    lowered = Lowered(program=program, arguments=arguments, **{**plain, "image": tuple(plain["image"]), "layers": tuple(plain["layers"])})
    said = record.load(folder)
    return Inspected(answer=analyse.answer(lowered, said, where), lowered=lowered, record=said, chip=where)


@pytest.fixture(scope="module")
def run(found, tmp_path_factory):
    return xprof.write(found, tmp_path_factory.mktemp("xprof"))


@pytest.fixture(scope="module")
def pages(run):
    return open_in_xprof(run)


def test_the_layout_is_the_one_xprof_looks_for(found, run):
    assert run.parts[-3:] == ("plugins", "profile", "original_v2-v2-8-64")
    assert sorted(p.name for p in run.iterdir()) == ["compiler_estimate.xplane.pb", "jit_train_step.hlo_proto.pb"]
    assert (run / "jit_train_step.hlo_proto.pb").read_bytes() == gzip.decompress(PROTO.read_bytes())


@needs_xprof
def test_xprofs_memory_viewer_shows_our_peak(pages, found):
    viewer = pages["memory_viewer"]
    assert viewer["peakHeapMib"] * 2**20 == pytest.approx(found.answer.padding.peak_padded_bytes, rel=0.01)
    assert viewer["totalBufferAllocationMib"] * 2**20 == pytest.approx(found.answer.hbm.peak_bytes, rel=0.01)


@needs_xprof
def test_xprofs_categories_have_our_shares(pages, found):
    check_shares(pages, found.answer)
    (program,) = pages["op_profile"]["byProgramExcludeIdle"]["children"]
    rows = {row["name"]: row["metrics"] for row in program["children"]}
    for ours in found.answer.categories:
        if ours.time_share > 1e-6:
            assert rows[ours.name]["rawTime"] == pytest.approx(ours.ms * 1e9, rel=0.01)
            if ours.flops_utilization:
                assert rows[ours.name]["flops"] == pytest.approx(ours.flops_utilization * ours.time_share, rel=0.01)


@needs_xprof
def test_xprofs_roofline_has_the_chips_peaks(pages, found):
    device = pages["roofline_model"][0]["p"]
    assert float(device["peak_flop_rate"]) == pytest.approx(found.chip.peak_flops / 1e9, rel=0.01)
    assert float(device["peak_hbm_bw"]) == pytest.approx(found.chip.hbm_bytes_per_second / 2**30, rel=0.01)


@needs_xprof
def test_a_corrupted_category_fails_the_check(found, tmp_path):
    module = hlo.parse(found.record.program)
    events = xprof.events(module, analyse.timed(found.lowered, found.record, module, found.chip))
    slowest = max(range(len(events)), key=lambda number: events[number].seconds)
    assert events[slowest].category == "output fusion"
    events[slowest] = dataclasses.replace(events[slowest], category="data formatting")
    (tmp_path / f"{module.name}.hlo_proto.pb").write_bytes(found.record.proto)
    (tmp_path / "host.xplane.pb").write_bytes(xprof.space(module.name, events, found.chip))
    with pytest.raises(AssertionError):
        check_shares(open_in_xprof(tmp_path), found.answer)


def test_without_placed_buffers_there_is_nothing_to_write(found, tmp_path):
    empty = dataclasses.replace(found, record=record.Record(outcome="failed", message="INTERNAL: no", folder=None))
    with pytest.raises(WorkError, match="nothing for XProf to show: INTERNAL: no"):
        xprof.write(empty, tmp_path)
