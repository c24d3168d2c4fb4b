"""A resolved recipe as text, cut down to what the run folder looks at, and arrays that are easy to tell apart."""

import copy

import numpy as np
import pytest
import yaml

RECIPE = {
    "name": "tiny",
    "seed": 0,
    "backend": "tensorflow",
    "data": {"source": {"kind": "emoji", "reverse": False}, "size": 64, "cache": "none", "workers": 0},
    "model": {"preset": "unet", "levels": [{"channels": 8}, {"channels": 16}], "block": "conv", "lowering": "plain"},
    "optimizer": {"name": "adam", "learning_rate": 0.001},
    "training": {
        "images": 400,
        "epochs": None,
        "batch": 10,
        "accumulate": 1,
        "steps_per_call": 8,
        "ema": 0.99,
        "precision": "float32",
        "callbacks": [],
    },
    "checkpoint": {"every_images": None, "keep_last": 2, "keep_best": True, "metric": "psnr"},
    "logging": {"every_images": None},
    "hardware": {"device": "auto"},
}


@pytest.fixture
def recipe():
    """Makes the text of a recipe, with `a.b=value` pairs changed."""

    def make(changes=None):
        content = copy.deepcopy(RECIPE)
        for key, value in (changes or {}).items():
            *path, last = key.split(".")
            section = content
            for name in path:
                section = section[name]
            section[last] = value
        return yaml.safe_dump(content, sort_keys=False)

    return make


@pytest.fixture
def arrays():
    """Makes the arrays of a step: every number in them is the step, so that a mixture of two steps shows."""

    def make(step):
        weight = np.full((3, 3, 2, 4), step, np.float32)
        return {
            "weights": {"down_0/block0/conv1/kernel": weight, "head/bias": np.full(3, step, np.float32)},
            "ema": {"head/bias": np.full(3, step, np.float32)},
            "optimizer": {"iteration": np.asarray(step, np.int64)},
        }

    return make
