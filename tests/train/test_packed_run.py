"""A run may be packed, and resumed in another layout: its weights do not know."""

import numpy as np

import unetkit
from unetkit import runs

RECIPE = {
    "name": "packed",
    "data": {"source": "emoji", "size": 16, "input_channels": 1, "split": {"validation": 0.01, "limit": 40}},
    "model": {"levels": [4, 8], "norm": "none", "dropout": 0.2},
    "optimizer": {"name": "sgd", "learning_rate": 0.05},
    "training": {"images": 96, "batch": 8, "steps_per_call": 3},
    "checkpoint": {"every_images": 48},
    "logging": {"every_images": 24, "validate_every_images": 96, "samples": {"count": 0}},
}
PACKED = ["model.lowering=packed", "model.packing=[[2, 4], [1, 2]]"]


def ended(path):
    run = runs.read(path)
    checkpoint = run.latest()
    return checkpoint.step, checkpoint.arrays("weights"), [line["loss"] for line in run.stats() if "loss" in line]


def test_a_run_that_was_packed_ends_where_a_plain_one_does(tmp_path):
    unetkit.fit(RECIPE, tmp_path / "plain", progress=False)
    unetkit.fit(RECIPE, tmp_path / "mixed", overrides=[*PACKED, "training.images=48"], progress=False)
    unetkit.fit(RECIPE, tmp_path / "mixed", progress=False)  # goes on in the plain layout
    (step, expected, losses), (other_step, found, other_losses) = ended(tmp_path / "plain"), ended(tmp_path / "mixed")
    assert step == other_step == 12
    assert np.allclose(losses, other_losses, rtol=1e-4)
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        assert np.abs(found[name] - array).max() < 1e-4, name
