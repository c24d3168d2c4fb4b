"""Lowering: the program that is asked about is the program that is trained."""

import json
import subprocess
import sys
import textwrap

import pytest

from unetkit import recipe
from unetkit.errors import UserError, WorkError
from unetkit.tpu import lower
from unetkit.tpu.chips import chip

TINY = """
name: tiny
data: {source: emoji, size: 16}
model: {preset: original, start_ch: 4, depth: 0}
training: {batch: 16, epochs: 1, ema: 0.9}
"""


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("UNETKIT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


def in_child(script: str, **environment: str) -> str:
    import os

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


ENGINES_OWN = f"""
    import hashlib, io, json, jax
    jax.config.update("jax_traceback_in_locations_limit", 0)
    from unetkit import build, recipe
    from unetkit.train.devices import open_devices
    from unetkit.train.engines import jax as engine
    from unetkit.train.plan import make_plan
    read = recipe.read({TINY!r} + "hardware: {{replicas: 8}}\\nbackend: jax\\n")
    made = build.engine(read, open_devices(read.hardware, "jax"), make_plan(read, 16))
    shapes = {{"input": (16, 16, 3), "target": (16, 16, 3)}}
    arguments = engine.abstract_arguments(made._state, shapes, made.options, made.devices)
    lowered = made._step.trace(*arguments).lower(lowering_platforms=("tpu",))
    code = io.BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(code)
    print(hashlib.sha256(code.getvalue()).hexdigest()[:20])
"""


def test_the_jax_program_is_the_engines_own_step():
    (lowered,) = lower.lower_recipe(recipe.read(TINY), chip("v2-8"), [16], "jax")
    assert in_child(ENGINES_OWN, KERAS_BACKEND="jax", JAX_PLATFORMS="cpu") == lowered.program.fingerprint
    assert (lowered.per_core_batch, lowered.image, lowered.program.partitions) == (2, (16, 16), 8)
    kinds = {(a.kind, a.path) for a in lowered.arguments.values()}
    assert {("weight", "bottom/block0/conv1/kernel"), ("optimizer", "bottom/block0/conv1/kernel"), ("input", "target")} <= kinds
    again = lower.lower_recipe(recipe.read(TINY), chip("v2-8"), [16], "jax")
    assert again == [lowered]


def test_a_batch_that_replicas_cannot_share_names_the_nearest():
    with pytest.raises(UserError, match=r"12 images cannot be shared by 8 replicas.*Use 8 or 16"):
        lower.lower_recipe(recipe.read(TINY), chip("v2-8"), [16, 12], "jax")


def test_a_keras_model_is_lowered_with_the_step_that_fit_runs(tmp_path):
    """From a process that has Keras on whatever backend; the loss says what the targets are."""
    script = """
        import json, keras
        from unetkit.tpu import lower, serial
        from unetkit.tpu.chips import chip
        image = keras.Input((16, 16, 3))
        x = keras.layers.Conv2D(4, 3, name="stem")(image)
        x = keras.layers.BatchNormalization(name="norm")(x)
        x = keras.layers.Dropout(0.5)(keras.layers.GlobalAveragePooling2D()(x))
        model = keras.Model(image, keras.layers.Dense(5, name="classes")(x), name="little")
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        described = serial.describe(model, optimizer="adam", loss=loss)
        lowered = lower.lower_keras(described, chip("v5e-4"), 8)
        kinds = sorted({(a.kind, a.path) for a in lowered.arguments.values() if a.path and a.path.startswith("stem")})
        print(json.dumps([lowered.name, lowered.program.partitions, lowered.per_core_batch, described["target_shapes"], kinds]))
    """
    said = json.loads(in_child(script))
    kinds = [[kind, f"stem/{part}"] for kind in ("optimizer", "weight") for part in ("bias", "kernel")]
    assert said == ["little", 4, 2, [[]], kinds]


def test_a_keras_model_can_be_described_in_bfloat16():
    import keras

    from unetkit.tpu import serial

    image = keras.Input((8, 8, 3))
    model = keras.Model(image, keras.layers.Conv2D(4, 3, name="stem")(image), name="little")
    described = serial.describe(model, optimizer="adam", loss="mae")
    narrow, _ = serial.rebuild(serial.in_bfloat16(described), 8)
    stem = narrow.get_layer("stem")
    assert (stem.compute_dtype, stem.variable_dtype) == ("bfloat16", "float32")
    assert serial.rebuild(described, 8)[0].get_layer("stem").compute_dtype == "float32"


def test_what_a_keras_model_lacks_is_said():
    import keras

    from unetkit.tpu import serial

    image = keras.Input((None, None, 3))
    model = keras.Model(image, keras.layers.Conv2D(3, 3)(image), name="open")
    with pytest.raises(UserError, match="needs an optimizer"):
        serial.describe(model)
    with pytest.raises(UserError, match="needs a loss"):
        serial.describe(model, optimizer="adam")
    with pytest.raises(UserError, match=r"leaves sizes open.*Pass input_shape="):
        serial.describe(model, optimizer="adam", loss="mae")


def test_a_child_that_dies_is_told_with_its_last_words(monkeypatch):
    monkeypatch.setitem(lower.MODULES, "jax", "no_such_module")
    with pytest.raises(WorkError, match=r"exit status 1[\s\S]*no_such_module"):
        lower.lower_recipe(recipe.read(TINY), chip("v2-8"), [24], "jax")


def test_an_engine_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(lower.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"--program tensorflow.*unetkit\[cpu\]"):
        lower.lower_recipe(recipe.read(TINY), chip("v2-8"), [16], "tensorflow")


OWN_BLOCK = '''
import keras
from unetkit.blocks import Block


class Plain(Block):
    """One convolution."""

    def __init__(self, channels, **settings):
        super().__init__(channels, **settings)
        self.only = keras.layers.Conv2D(self.channels, 3, padding="same", name="only")

    def transform(self, x, training):
        return self.only(x)
'''


def test_a_block_of_ones_own_is_imported_in_the_child(tmp_path, monkeypatch):
    (tmp_path / "own_blocks.py").write_text(OWN_BLOCK)
    monkeypatch.chdir(tmp_path)
    asked = recipe.read(TINY.replace("{preset: original, start_ch: 4, depth: 0}", "{block: 'own_blocks:Plain', levels: [4, 4]}"))
    (lowered,) = lower.lower_recipe(asked, chip("v2-8"), [16], "jax")
    assert "down_0/block0/only/kernel" in {a.path for a in lowered.arguments.values()}


@pytest.mark.parametrize("engine", ["jax", "tensorflow"])
def test_rematerialised_blocks_are_computed_twice(engine):
    """Two convolutions of the one block, once more in the backward pass."""
    plain = recipe.read(TINY)
    again = recipe.read(TINY, ["training.remat=blocks"])
    kept, twice = lower.lower_recipes([plain, again], chip("v2-8"), engine)
    assert (kept.remat, twice.remat) == ("none", "blocks")
    assert twice.program.convolutions >= kept.program.convolutions + 1
