"""Keyed randomness: no two places of a run share a seed, and dropout masks differ between the two halves of a batch."""

import keras
import numpy as np

from unetkit.objectives import Translation
from unetkit.train.step import Place, Step, keyed_seed


def seeds(*places, label="a", seed=0):
    return [tuple(int(v) for v in keras.ops.convert_to_numpy(keyed_seed(seed, label, p, "int64"))) for p in places]


def test_every_place_has_its_own_seed():
    places = [Place(step, micro, 2, replica, 4) for step in range(5) for micro in range(2) for replica in range(4)]
    assert len(set(seeds(*places))) == len(places)


def test_label_and_run_seed_change_the_seed():
    place = Place(3)
    assert len({*seeds(place), *seeds(place, label="b"), *seeds(place, seed=1)}) == 3


def test_replicas_get_different_dropout_masks():
    inputs = keras.Input((4, 4, 1))
    model = keras.Model(inputs, keras.layers.Dropout(0.5)(inputs))

    def differentiate(function, weights):
        return function(weights), {"model": []}

    step = Step(Translation(model, "l2"), seed=0, global_batch=8, differentiate=differentiate)
    other = {"model": [v.value for v in model.non_trainable_variables]}
    batch = {"input": np.ones((4, 4, 4, 1), np.float32), "target": np.arange(64, dtype=np.float32).reshape(4, 4, 4, 1)}

    def loss(replica, step_number=0):
        sums = step.gradients({"model": []}, other, batch, Place(step_number, 0, 1, replica, 2))[2]
        return float(keras.ops.convert_to_numpy(sums["loss"]))

    assert loss(0) == loss(0)
    assert len({loss(0), loss(1), loss(0, step_number=1)}) == 3
