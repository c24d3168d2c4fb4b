"""JAX is an equal engine: same records, same promises, same initial weights, same outputs and losses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax_probe
import numpy as np

TESTS = Path(__file__).parents[1]


def test_jax_keeps_the_same_promises_and_computes_the_same(tmp_path):
    x = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype("float32")
    np.save(tmp_path / "x.npy", x)
    jax_probe.outputs(tmp_path)
    env = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "PYTHONPATH": f"{TESTS / 'models'}:{TESTS / 'blocks'}"}
    # The programs are tiny and run once: optimising them would take most of the time.
    env["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    run = subprocess.run([sys.executable, jax_probe.__file__, str(tmp_path)], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr

    ours, theirs = (np.load(tmp_path / f"{backend}.weights.npz") for backend in ("tensorflow", "jax"))
    assert set(ours) == set(theirs)
    assert all(np.array_equal(ours[path], theirs[path]) for path in ours)
    ours, theirs = (np.load(tmp_path / f"{backend}.y.npy") for backend in ("tensorflow", "jax"))
    assert np.abs(ours - theirs).max() < 1e-5
    ours, theirs = (json.loads((tmp_path / f"{backend}.loss.json").read_text()) for backend in ("tensorflow", "jax"))
    assert np.allclose(ours, theirs, atol=1e-5)
