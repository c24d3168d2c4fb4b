"""Both engines, one and several replicas: the same recipe gives the same numbers."""

import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from unetkit.errors import UserError

PROBE = Path(__file__).with_name("engine_probe.py")


STARTED: list[tuple[subprocess.Popen, IO[str]]] = []


@functools.cache
def worker(backend: str, replicas: int) -> subprocess.Popen:
    environment = {k: v for k, v in os.environ.items() if k not in ("KERAS_BACKEND", "XLA_FLAGS")}
    # stderr goes to a file: engines write enough notes there to fill a pipe that nobody reads.
    notes = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by stop_workers)
    process = subprocess.Popen(
        [sys.executable, str(PROBE)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=notes, text=True
    )
    STARTED.append((process, notes))
    return process


@functools.cache
def probe(**asked) -> dict[str, np.ndarray]:
    out = Path(tempfile.mkdtemp()) / "out.npz"
    process = worker(asked["backend"], asked.get("replicas", 1))
    process.stdin.write(json.dumps({**asked, "out": str(out)}) + "\n")
    process.stdin.flush()
    said = []
    for line in iter(process.stdout.readline, ""):
        said.append(line)
        if line == "done\n":
            break
    if "refused" in "".join(said):
        raise UserError("".join(said))
    if not said or said[-1] != "done\n":
        notes = dict(STARTED)[process]
        notes.seek(0)
        pytest.fail(notes.read()[-3000:])
    with np.load(out) as file:
        return {**dict(file), "path": str(out)}


@pytest.fixture(scope="module", autouse=True)
def stop_workers():
    yield
    for process, notes in STARTED:
        process.communicate()
        notes.close()
    STARTED.clear()
    worker.cache_clear()
    probe.cache_clear()


def assert_same(one: dict, other: dict, tolerance: float, *, only: str = "") -> None:
    names = [n for n in one if n.startswith(only) and isinstance(one[n], np.ndarray)]
    assert names
    for name in names:
        np.testing.assert_allclose(one[name], other[name], rtol=tolerance, atol=tolerance, err_msg=name)


def test_engines_agree_on_losses_weights_average_and_prediction():
    assert_same(probe(backend="tensorflow"), probe(backend="jax"), 1e-5)


def test_training_lowers_the_loss_and_moves_the_average_behind_the_weights():
    result = probe(backend="tensorflow")
    assert result["loss"][-1] < result["loss"][0]
    assert np.abs(result["ema:first/kernel"] - result["weights:first/kernel"]).max() > 1e-3
    assert np.abs(result["prediction"] - result["raw"]).max() > 1e-3


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
@pytest.mark.parametrize("replicas", [2, 4, 8])
def test_replicas_do_not_change_loss_or_weights(backend, replicas):
    """All of the first step's error is in the last one's share."""
    asked = {"backend": backend, "error_in_last": True, "steps": 3}
    one, many = probe(**asked), probe(**asked, replicas=replicas)
    assert one["loss"][0] > 0.1
    assert_same(one, many, 1e-5)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_batch_norm_over_all_replicas_does_not_depend_on_how_many(backend):
    asked = {"backend": backend, "batch_norm": True, "steps": 3}
    assert_same(probe(**asked), probe(**asked, replicas=8), 1e-5)


def test_batch_norm_over_all_replicas_holds_in_every_micro_batch():
    asked = {"backend": "tensorflow", "remat": False, "accumulate": 2, "steps": 3, "dropout_rate": 0.0}
    assert_same(probe(**asked), probe(**asked, replicas=2), 1e-5)


def test_a_recomputed_batch_norm_cannot_ask_tensorflows_other_replicas():
    with pytest.raises(UserError, match=r"sync_batch_norm: TensorFlow cannot.*remat: none.*backend: jax"):
        probe(backend="tensorflow", remat=True, steps=3, replicas=2)


def test_batch_norm_by_replica_is_another_result():
    asked = {"backend": "tensorflow", "batch_norm": True, "steps": 3}
    one, alone = probe(**asked), probe(**asked, replicas=2, sync_batch_norm=False)
    assert np.abs(one["loss"] - alone["loss"]).max() > 1e-4


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_prediction_of_any_number_of_images_keeps_their_order(backend):
    """7 images on 8 devices are filled up, and come back as 7."""
    one, many = (probe(backend=backend, sgd=True, steps=1, rows=7, replicas=replicas) for replicas in (1, 8))
    assert one["prediction"].shape[0] == 7
    np.testing.assert_allclose(one["prediction"], many["prediction"], atol=1e-5)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_accumulation_does_not_change_loss_or_weights(backend):
    assert_same(probe(backend=backend), probe(backend=backend, replicas=2, accumulate=4), 1e-5)


def test_one_sgd_step_agrees_between_engines_and_replicas():
    single = probe(backend="tensorflow", sgd=True, steps=1)
    for other in (probe(backend="jax", sgd=True, steps=1), probe(backend="tensorflow", sgd=True, steps=1, replicas=2)):
        assert_same(single, other, 1e-5)


def test_lookahead_agrees_between_engines_and_replicas_and_resumes():
    single = probe(backend="tensorflow", lookahead=True)
    assert_same(single, probe(backend="tensorflow", lookahead=True, replicas=2), 1e-5)
    assert_same(single, probe(backend="jax", lookahead=True), 1e-5)
    cut = probe(backend="tensorflow", lookahead=True, stop=3)
    resumed = probe(backend="tensorflow", lookahead=True, load=cut["path"])
    for name in (n for n in single if ":" in n):
        np.testing.assert_array_equal(single[name], resumed[name], err_msg=name)


def test_steps_per_call_changes_nothing():
    one, four = probe(backend="tensorflow", dropout=0.5, steps_per_call=1), probe(backend="tensorflow", dropout=0.5, steps_per_call=4)
    assert_same(one, four, 0.0)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_resumed_run_equals_straight_run_bit_for_bit(backend):
    straight = probe(backend=backend, dropout=0.5, batch_norm=True, steps_per_call=2)
    cut = probe(backend=backend, dropout=0.5, batch_norm=True, steps_per_call=2, stop=3)
    resumed = probe(backend=backend, dropout=0.5, batch_norm=True, steps_per_call=2, load=cut["path"])
    for name in straight:
        if ":" in name:
            np.testing.assert_array_equal(straight[name], resumed[name], err_msg=name)
    np.testing.assert_array_equal(straight["loss"], np.concatenate([cut["loss"], resumed["loss"]]))


def test_checkpoint_of_one_engine_resumes_on_the_other():
    cut = probe(backend="tensorflow", stop=3)
    assert_same(probe(backend="jax"), probe(backend="jax", load=cut["path"]), 1e-5, only="weights:")


def test_dropout_differs_between_replicas_and_steps():
    """With the same mask on both replicas, two replicas would give what one gives on half the masks: compare with one replica."""
    one, two = probe(backend="tensorflow", dropout=0.5), probe(backend="tensorflow", dropout=0.5, replicas=2)
    assert np.abs(one["loss"] - two["loss"]).max() > 1e-4
    again = probe(backend="tensorflow", dropout=0.5, replicas=2, steps_per_call=3)
    np.testing.assert_array_equal(two["loss"], again["loss"])


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_noise_is_the_same_whatever_the_number_of_replicas(backend):
    assert_same(probe(backend=backend, noisy=True), probe(backend=backend, noisy=True, replicas=2), 1e-5)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_trains_near_float32_with_float32_weights(backend, precision):
    full, mixed = probe(backend=backend), probe(backend=backend, precision=precision)
    np.testing.assert_allclose(full["loss"], mixed["loss"], rtol=2e-2)
    assert mixed["weights:first/kernel"].dtype == np.float32
    assert mixed["prediction"].dtype == np.float32


def test_xla_changes_only_rounding():
    assert_same(probe(backend="tensorflow"), probe(backend="tensorflow", jit=True), 1e-4)


@pytest.mark.parametrize("loss", ["l2", "charbonnier", "psnr", "ssim_l1"])
def test_losses_agree_between_engines(loss):
    assert_same(probe(backend="tensorflow", loss=loss, steps=3), probe(backend="jax", loss=loss, steps=3), 1e-4, only="loss")


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_rematerialised_blocks_train_to_the_same_numbers(backend):
    """Dropout masks, batch statistics and accumulation included."""
    kept = probe(backend=backend, remat=False, accumulate=2, steps=3)
    assert_same(kept, probe(backend=backend, remat=True, accumulate=2, steps=3), 1e-5)  # another program sums in another order
