"""An objective's pictures as a Keras layer, for what works with trained networks."""

import keras

from unetkit.objectives.base import Objective


class Prediction(keras.layers.Layer):
    """What `Objective.request` made -> pictures, (b, h, w, c) float32. Its weights are those of the objective's main network.

    Args:
        objective: around a built network.
    """

    def __init__(self, objective: Objective) -> None:
        super().__init__(name="prediction", dtype="float32")
        self.objective, self.network = objective, objective.networks[objective.main]

    def call(self, batch):
        return self.objective.predict(lambda role, *inputs: self.network(*inputs, training=False), batch)
