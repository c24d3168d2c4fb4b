"""The real TPU compiler, asked about tiny programs: what the private entry points of JAX in `worker.py` still do.

Twelve compilations in all, three of them for the advice of one recipe. Skipped only where no Python has the compiler: libtpu
exists for Linux on x86-64 alone.
"""

import json
from pathlib import Path

import pytest

from unetkit import recipe
from unetkit.cli import main
from unetkit.tpu import analyse, ask, buffers, hlo, inspection, tuning
from unetkit.tpu.cache import Cache
from unetkit.tpu.chips import chip
from unetkit.tpu.environment import CompilerMissing, find_interpreter

RECORDS = Path(__file__).parent / "records"

try:
    INTERPRETER = find_interpreter()
except CompilerMissing as missing:
    pytest.skip(str(missing), allow_module_level=True)

pytestmark = pytest.mark.compiler


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One cache for this file, so that no program is compiled twice."""
    return tmp_path_factory.mktemp("answers")


@pytest.fixture(autouse=True)
def cache_here(monkeypatch, cache):
    monkeypatch.setenv("UNETKIT_CACHE_DIR", str(cache))


def product(name: str, where: str, stage: str = "full"):
    program = ask.Program(code=(RECORDS / name).read_bytes())
    return ask.compile_program(program, chip(where), stage=stage)[0]


def test_a_program_is_compiled_with_cycles_memory_and_versions():
    record = product("matmul.bc", "v2-8")
    assert record.outcome == "compiled", record.message
    assert record.versions["libtpu"] == INTERPRETER.versions["libtpu"] and "TPU v2" in record.compiler
    module = hlo.parse(record.program)
    assert sum(module.flops(i, module.entry) for i in module.entry) == 2 * 256**3
    assert sum(i.cycles or 0 for i in module.entry) > 256**3 / 128**2  # a 128 x 128 unit cannot be faster
    memory = buffers.parse(record.buffers, record.ranges)
    assert memory.sizes["parameter"] == record.memory["argument"] == 2 * 256 * 256 * 4
    assert record.proto and b"buffer" not in record.proto[:10]


def test_megacore_compiles_for_one_device_of_two_cores():
    record = product("matmul.bc", "v4-8")
    assert record.outcome == "compiled", record.message
    assert "TPU v4" in record.compiler


def test_memory_alone_is_the_memory_of_the_whole_compilation(tmp_path, monkeypatch):
    late = product("matmul.bc", "v2-8")
    monkeypatch.setenv("UNETKIT_CACHE_DIR", str(tmp_path))  # there a full answer would serve
    early = product("matmul.bc", "v2-8", "memory")
    assert early.outcome in ("memory", "compiled") and late.outcome == "compiled"  # so small a program may be done before it is stopped
    assert early.buffers == late.buffers


def test_a_program_that_is_too_large_comes_with_its_buffers():
    record = product("too_large.bc", "v2-8")
    assert record.outcome == "oom" and "exceeds available HBM (7.48G)" in record.message
    assert buffers.parse(record.buffers, record.ranges).total_bytes > 7.48 * 2**30


def test_what_the_compiler_cannot_read_is_a_failure_not_a_crash(tmp_path):
    record, _ = ask.compile_program(ask.Program(code=b"no program"), chip("v2-8"), cache=Cache(tmp_path))
    assert record.outcome == "failed" and record.message
    assert not Cache(tmp_path).usage().entries


def test_a_recipe_answers_as_recorded_and_the_second_time_at_once(recorded, tmp_path):
    """The command line, end to end, against the recorded answer of the same recipe."""
    path = tmp_path / "original_v2.yaml"
    path.write_text(
        "name: original_v2\ndata: {source: emoji, size: 32}\nmodel: {preset: original, start_ch: 8, depth: 1, upconv: false}\n"
        "training: {batch: 64, epochs: 1}\ntpu: {chip: v2-8}\n"
    )
    assert main(["inspect", str(path), "--json", str(tmp_path / "first.json")]) == 0
    first = json.loads((tmp_path / "first.json").read_text())
    expected = analyse.answer(*recorded("original_v2"))
    assert first["step"]["cycles"] == pytest.approx(expected.step.cycles, rel=0.05)
    assert first["hbm"]["peak_bytes"] == pytest.approx(expected.hbm.peak_bytes, rel=0.05)
    (again,) = inspection.ask_recipe(recipe.read(path))
    assert {**again.answer.to_dict(), "advice": first["advice"]} == first  # the command tries its advice; asking alone does not


def test_tensorflows_step_compiles_too(tmp_path):
    text = (
        "name: tiny\ndata: {source: emoji, size: 16}\nmodel: {preset: original, start_ch: 4, depth: 0}\ntraining: {batch: 16, epochs: 1}\n"
    )
    (answer,) = inspection.inspect_recipe(recipe.read(text), "v3-8", program="tensorflow", stage="memory")
    assert answer.fits and answer.program == "tensorflow"
    assert {b.layer for b in answer.buffers} >= {"input"} and any(b.kind == "weight" for b in answer.buffers)


def test_a_keras_model_of_any_kind_can_be_asked_about():
    import keras

    from unetkit import tpu

    image = keras.Input((16, 16, 3))
    x = keras.layers.Conv2D(8, 3, activation="relu", name="stem")(image)
    x = keras.layers.Dense(5, activation="softmax", name="classes")(keras.layers.Flatten()(x))
    model = keras.Model(image, x, name="little")
    answer = tpu.inspect(model, optimizer="sgd", loss="sparse_categorical_crossentropy", batch=16, chip="v5e-8", stage="memory")
    assert answer.fits and answer.per_core_batch == 2
    assert answer.step.estimated_ms is None and analyse.WITHOUT_TIME in answer.notes
    assert any(b.layer == "classes/kernel" and b.kind == "weight" for b in answer.buffers)


def test_a_tiny_net_is_tuned_batch_precision_remat_and_packing():
    """The whole search by the real compiler; what `images` leaves is one batch, so that it asks ten questions at most."""
    text = (
        "name: tiny\ndata: {source: emoji, size: 16}\nmodel: {levels: [8], norm: none}\noptimizer: {name: sgd}\n"
        "training: {batch: auto, images: 1000}\ntpu: {chip: v2-8, tune: {precision: true, remat: true, lowering: true}}\n"
    )
    found = tuning.tune_recipe(recipe.read(text), images=64)
    tried = {(a.precision, a.remat, a.packing) for a in found.candidates if a.source == "compiled" and a.step.images_per_second}
    assert {("float32", "none", "none"), ("mixed_bfloat16", "none", "none")} < tried
    assert any(remat == "blocks" for _, remat, _ in tried) and any(packing != "none" for *_, packing in tried)
    assert found.choice.step.images_per_second == max(a.step.images_per_second for a in found.candidates if a.step.images_per_second)
    assert found.compiles == len(tried) and found.ended == "complete"
    training, network = found.recipe.training, found.recipe.model
    assert (training.batch, training.precision, training.remat) == (64, found.choice.precision, found.choice.remat)
    assert (network.lowering == "plain") == (found.choice.packing == "none")


def test_a_recipe_of_signals_is_inspected_packed_and_tuned():
    text = (
        "name: tones\ndata: {source: {kind: tones, task: denoise}, size: 256, input_channels: 1, target_channels: 1}\n"
        "model: {rank: 1, levels: [8], norm: none}\noptimizer: {name: sgd}\ntraining: {batch: auto, images: 1000}\ntpu: {chip: v2-8}\n"
    )
    found = tuning.tune_recipe(recipe.read(text), images=64)
    assert found.choice.source == "compiled" and found.choice.global_batch == 64 and found.choice.step.images_per_second
    assert found.choice.hbm.peak_bytes > 64 / 8 * 256 * 8 * 4  # the outputs of one convolution
    packed = recipe.read(text, ["training.batch=64", "model.lowering=packed", "model.packing=[[16]]"])
    (answer,) = inspection.inspect_recipe(packed, "v2-8", stage="memory")
    assert answer.fits and answer.packing == "16" and answer.per_core_batch == 8
