"""The MemoryViewer callback on real `fit`s: beside the training, written, remembered, warning, refusing."""

import json
import os
import subprocess
import sys
import threading
import time

import keras
import numpy as np
import pytest

from unetkit.callbacks import MemoryViewer, memory_viewer
from unetkit.callbacks.beside import Beside
from unetkit.errors import LimitError, UserError
from unetkit.tpu.answer import Answer
from unetkit.tpu.environment import CompilerMissing


@pytest.fixture
def asked(monkeypatch, answer):
    """The questions that reached the compiler; it always answers with the composed answer (1.72x padding)."""
    questions = []

    def compiler(question, show):
        questions.append((question.where.name, question.batch))
        return answer

    monkeypatch.setattr(memory_viewer._Question, "_compiler", compiler)
    monkeypatch.setattr(memory_viewer, "find_interpreter", lambda: None)
    return questions


def inspected(folder):
    return json.loads((folder / "analysis.json").read_text())["inspect"]


def pairs(count=32):
    return np.zeros((count, 8, 8, 3), "float32"), np.zeros((count, 8, 8, 3), "float32")


def test_the_answer_is_written_and_asked_only_once(network, asked, answer, tmp_path):
    viewer = MemoryViewer("v2-8", folder=tmp_path / "run")
    network.fit(*pairs(), batch_size=16, verbose=0, callbacks=[viewer])
    assert viewer.answer == answer and asked == [("v2-8", 16)]
    plain = inspected(tmp_path / "run")
    assert plain.pop("question") and Answer.from_dict(plain) == answer
    again = MemoryViewer("v2-8", folder=tmp_path / "run")
    network.fit(*pairs(), batch_size=16, verbose=0, callbacks=[again])
    assert again.answer == answer and asked == [("v2-8", 16)]
    network.fit(*pairs(), batch_size=32, verbose=0, callbacks=[MemoryViewer("v2-8", folder=tmp_path / "run")])
    assert asked == [("v2-8", 16), ("v2-8", 32)]


def test_the_batch_of_a_dataset_is_found(network, asked, tmp_path):
    tf = pytest.importorskip("tensorflow")
    data = tf.data.Dataset.from_tensor_slices(pairs()).batch(8, drop_remainder=True)
    network.fit(data, shuffle=False, verbose=0, callbacks=[MemoryViewer("v3-8", folder=tmp_path)])
    assert asked == [("v3-8", 8)]


def test_data_without_a_known_batch_wants_it_named(network, asked, tmp_path):
    def forever():
        while True:
            yield pairs(4)

    with pytest.raises(UserError, match=r"MemoryViewer\(batch=128\)"):
        network.fit(forever(), steps_per_epoch=1, shuffle=False, verbose=0, callbacks=[MemoryViewer("v2-8", folder=tmp_path)])
    network.fit(forever(), steps_per_epoch=1, shuffle=False, verbose=0, callbacks=[MemoryViewer("v2-8", folder=tmp_path, batch=8)])
    assert asked == [("v2-8", 8)]


class Trained(keras.callbacks.Callback):
    """Says when the first step is done."""

    def __init__(self):
        super().__init__()
        self.event = threading.Event()

    def on_train_batch_end(self, batch, logs=None):
        self.event.set()


def test_the_question_is_asked_beside_the_training(network, answer, tmp_path, monkeypatch):
    trained, waited = Trained(), []

    def compiler(question, show):
        waited.append(trained.event.wait(300))
        return answer

    monkeypatch.setattr(memory_viewer, "find_interpreter", lambda: None)
    monkeypatch.setattr(memory_viewer._Question, "_compiler", compiler)
    viewer = MemoryViewer("v2-8", folder=tmp_path)
    network.fit(*pairs(), batch_size=16, verbose=0, callbacks=[viewer, trained])
    assert waited == [True] and viewer.answer == answer


def test_an_exceeded_limit_warns(network, asked, tmp_path):
    with pytest.warns(UserWarning, match=r"the-question on v2-8 at batch 128 is padded 1.72x at the peak, above the limit of 1.5x"):
        network.fit(*pairs(), batch_size=16, verbose=0, callbacks=[MemoryViewer("v2-8", max_padding=1.5, folder=tmp_path)])


def test_a_refusal_comes_before_the_first_step(network, asked, tmp_path):
    trained = Trained()
    viewer = MemoryViewer("v2-8", max_hbm=0.5, refuse=True, folder=tmp_path)
    with pytest.raises(LimitError, match=r"of the usable HBM, above the limit of 50\.0%"):
        network.fit(*pairs(), batch_size=16, verbose=0, callbacks=[viewer, trained])
    assert not trained.event.is_set()
    assert (tmp_path / "analysis.json").exists()


def test_within_its_limits_a_refusing_viewer_lets_train(network, asked, tmp_path):
    viewer, trained = MemoryViewer("v2-8", max_padding=2.0, max_hbm=0.9, refuse=True, folder=tmp_path), Trained()
    network.fit(*pairs(), batch_size=16, verbose=0, callbacks=[viewer, trained])
    assert trained.event.is_set() and viewer.answer.fits


def test_a_question_that_fails_does_not_stop_the_training(network, tmp_path, monkeypatch):
    def compiler(question, show):
        raise UserError("no such thing")

    monkeypatch.setattr(memory_viewer, "find_interpreter", lambda: None)
    monkeypatch.setattr(memory_viewer._Question, "_compiler", compiler)
    with pytest.warns(UserWarning, match="no answer: no such thing"):
        network.fit(*pairs(), batch_size=16, verbose=0, callbacks=[MemoryViewer("v2-8", folder=tmp_path)])


def test_without_a_compiler_the_model_answers(network, tmp_path, monkeypatch):
    def missing():
        raise CompilerMissing("not here")

    monkeypatch.setattr(memory_viewer, "find_interpreter", missing)
    viewer = MemoryViewer("v2-8", folder=tmp_path)
    network.fit(*pairs(), batch_size=16, verbose=0, callbacks=[viewer])
    assert viewer.answer.source == "model" and viewer.answer.per_core_batch == 2
    assert inspected(tmp_path)["source"] == "model"


def test_no_chip_and_no_tpu_is_an_error(network, asked, tmp_path, monkeypatch):
    monkeypatch.delenv("TPU_ACCELERATOR_TYPE", raising=False)
    with pytest.raises(UserError, match="no TPU is attached"):
        network.fit(*pairs(), batch_size=16, verbose=0, callbacks=[MemoryViewer(folder=tmp_path)])
    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", "v5litepod-8")
    network.fit(*pairs(), batch_size=16, verbose=0, callbacks=[MemoryViewer(folder=tmp_path)])
    assert asked == [("v5e-8", 16)]


def test_a_damaged_file_is_asked_again(network, asked, tmp_path):
    (tmp_path / "analysis.json").write_text("{")
    network.fit(*pairs(), batch_size=16, verbose=0, callbacks=[MemoryViewer("v2-8", folder=tmp_path)])
    assert asked == [("v2-8", 16)]


def test_a_dropped_question_ends_its_work():
    def ask(show):
        while True:
            show("working", 0.0, None)
            time.sleep(0.01)

    beside = Beside(ask)
    assert not beside.ended
    beside.drop()
    assert beside.ended and beside.answer is None and beside.error is None


ON_JAX = """
import dataclasses, json, sys
import keras, numpy as np
from unetkit import build
from unetkit.callbacks import MemoryViewer, memory_viewer
from unetkit.recipe import read

from unetkit.tpu import executable
from unetkit.tpu.answer import Answer, Padding

estimate = Answer(name="x", chip="v2-8", chips=4, cores=8, replicas=8, global_batch=16, per_core_batch=2, source="compiled", program="jax",
                  fits=True, padding=Padding(ratio=2.0))
memory_viewer.find_interpreter = lambda: None
memory_viewer._Question._compiler = lambda question, show: estimate
executable.attached = lambda: True  # as if this CPU were the TPU: its executables carry the same figures
image = keras.Input((8, 8, 3))
net = keras.Model(image, keras.layers.Conv2D(3, 3, padding="same")(image))
net.compile("adam", "mae")
viewer = MemoryViewer("v2-8", folder=sys.argv[1])
data = np.zeros((32, 8, 8, 3), "float32")
net.fit(data, data, batch_size=16, verbose=0, callbacks=[viewer])
weights = sum(4 * int(np.prod(v.shape)) for v in net.trainable_variables)

recipe = read({"name": "r", "data": {"source": "emoji", "size": 16}, "model": {"preset": "unet", "levels": [4, 8], "norm": "none"},
               "training": {"images": 16, "batch": 8}, "backend": "jax"})
network = build.network(recipe)
goal = build.objective(recipe, network)
from unetkit.train.plan import make_plan
(optimizer,) = build.optimizers(recipe, goal, make_plan(recipe, 8)).values()
stats = executable.of_recipe(recipe, network, optimizer)
print(json.dumps({"answer": viewer.answer.to_dict(), "weights": weights, "recipe": stats.argument_size_in_bytes}))
"""


def test_on_an_attached_device_under_jax_the_executables_memory_counts(tmp_path):
    environment = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", ON_JAX, str(tmp_path)], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    answer = Answer.from_dict(said["answer"])
    assert answer.source == "executable" and any("executable on the attached TPU" in note for note in answer.notes)
    batch_bytes = 2 * 16 * 8 * 8 * 3 * 4
    assert 3 * said["weights"] + batch_bytes <= answer.hbm.argument_bytes <= 3 * said["weights"] + batch_bytes + 256
    assert answer.hbm.peak_bytes >= answer.hbm.argument_bytes and answer.padding.ratio == 2.0
    assert said["recipe"] > 2 * 8 * 16 * 16 * 3 * 4
    assert inspected(tmp_path)["source"] == "executable"


def test_a_batch_that_cannot_be_shared_only_warns(network, tmp_path, monkeypatch):
    def missing():
        raise CompilerMissing("not here")

    monkeypatch.setattr(memory_viewer, "find_interpreter", missing)
    with pytest.warns(UserWarning, match="no answer: batch: 12 images cannot be shared"):
        network.fit(*pairs(24), batch_size=12, verbose=0, callbacks=[MemoryViewer("v2-8", folder=tmp_path)])
