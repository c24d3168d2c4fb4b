"""`unetkit.addons` computes what tensorflow-addons computed, on both backends, to 1e-5."""

import os
import subprocess
import sys

import addons_records
import numpy as np
import pytest


@pytest.mark.parametrize("path", sorted(addons_records.RECORDS.glob("*.npz")), ids=lambda path: path.stem)
def test_values_gradients_and_paths_are_those_of_the_original(path):
    assert addons_records.compare(path.stem, dict(np.load(path))) < addons_records.TOLERANCE


def test_every_record_is_there():
    assert len(list(addons_records.RECORDS.glob("*.npz"))) == 13


def test_jax_computes_the_same():
    env = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, addons_records.__file__, str(addons_records.RECORDS)], env=env, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr[-2000:]
    assert run.stdout.count("jax ") == 13
