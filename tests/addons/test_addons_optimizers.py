"""Optimizers around and beside Keras' own: saved and loaded with their state, float16, patterns, averages, bad arguments."""

import keras
import numpy as np
import pytest

from unetkit.addons import optimizers
from unetkit.errors import UserError

MAKERS = {
    "AdamW": lambda: optimizers.AdamW(weight_decay=keras.optimizers.schedules.CosineDecay(1e-4, 10), exclude_from_weight_decay=["bias"]),
    "LAMB": lambda: optimizers.LAMB(weight_decay=0.1, exclude_from_weight_decay=["bias"]),
    "RectifiedAdam": lambda: optimizers.RectifiedAdam(1e-2, total_steps=10, min_lr=1e-3),
    "NovoGrad": lambda: optimizers.NovoGrad(keras.optimizers.schedules.CosineDecay(1e-2, 10), amsgrad=True),
    "Lookahead": lambda: optimizers.Lookahead(keras.optimizers.AdamW(1e-2), sync_period=2),
    "MovingAverage": lambda: optimizers.MovingAverage("adam", average_decay=0.5, num_updates=3),
    "SWA": lambda: optimizers.SWA(keras.optimizers.SGD(1e-2, momentum=0.9), average_period=2),
}
X = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
Y = X.sum(-1, keepdims=True)


def model(optimizer):
    net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="first"), keras.layers.Dense(1, name="last")])
    net.set_weights([np.full(w.shape, 0.3 - 0.1 * i, "float32") for i, w in enumerate(net.get_weights())])
    net.compile(optimizer, "mse")
    return net


def fit(net, epochs):
    return net.fit(X, Y, batch_size=8, epochs=epochs, verbose=0, shuffle=False).history["loss"]


@pytest.mark.parametrize("name", MAKERS)
def test_saved_in_the_middle_it_goes_on_as_if_it_had_not_been(name, tmp_path):
    straight, cut = model(MAKERS[name]()), model(MAKERS[name]())
    losses = fit(straight, 6)
    fit(cut, 3)
    cut.save(tmp_path / "cut.keras")
    loaded = keras.models.load_model(tmp_path / "cut.keras")
    assert type(loaded.optimizer).__name__ == name
    assert loaded.optimizer.get_config() == cut.optimizer.get_config()
    np.testing.assert_allclose(fit(loaded, 3), losses[3:], rtol=1e-6)
    assert losses[-1] < losses[0]


def test_patterns_spare_weights_from_decay_and_from_layer_adaptation():
    kernel, bias = keras.Variable(np.ones((2, 2)), name="kernel"), keras.Variable(np.ones(2), name="bias")
    optimizer = optimizers.LAMB(0.1, weight_decay=0.5, exclude_from_weight_decay=["bias"])
    optimizer.build([kernel, bias])
    optimizer.apply([np.zeros((2, 2), "float32"), np.zeros(2, "float32")])
    # The direction is the decay alone, 0.5, which is scaled to the length of the weights: a step of 0.1 x 1.
    np.testing.assert_allclose(kernel, 0.9, rtol=1e-6)
    np.testing.assert_array_equal(bias, 1.0)


def test_lookahead_keeps_the_decay_and_the_clipping_of_the_optimizer_inside():
    weight = keras.Variable(np.ones(1), name="weight")
    optimizer = optimizers.Lookahead(keras.optimizers.SGD(1.0, weight_decay=0.1, clipvalue=0.25), sync_period=100)
    optimizer.build([weight])
    optimizer.apply([np.array([5.0], "float32")])
    np.testing.assert_allclose(weight, 1 - 0.1 - 0.25, rtol=1e-6)
    assert int(optimizer.inner.iterations) == 1


def test_the_learning_rate_is_that_of_the_optimizer_inside():
    optimizer = optimizers.Lookahead(keras.optimizers.SGD(0.5))
    optimizer.learning_rate = 0.25
    assert float(optimizer.learning_rate) == float(optimizer.inner.learning_rate) == 0.25
    optimizer.learning_rate = keras.optimizers.schedules.PolynomialDecay(1.0, 10)
    assert float(optimizer.learning_rate) == 1.0


def test_averages_can_be_swapped_in_and_out_exactly():
    net = model(optimizers.MovingAverage("adam", average_decay=0.5))
    fit(net, 3)
    before = net.get_weights()
    net.optimizer.swap_weights()
    assert any(np.abs(a - b).max() > 0 for a, b in zip(net.get_weights(), before, strict=True))
    net.optimizer.swap_weights()
    assert all(np.array_equal(a, b) for a, b in zip(net.get_weights(), before, strict=True))
    with pytest.warns(UserWarning, match="has no average of stranger"):
        net.optimizer.assign_average_vars([keras.Variable(1.0, name="stranger")])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optimizers.NovoGrad(weight_decay=-1), "weight_decay=-1 must be 0 or more"),
        (lambda: optimizers.Lookahead("adam", sync_period=0), "sync_period=0"),
        (lambda: optimizers.SWA("adam", average_period=0), "average_period=0"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(make, message):
    with pytest.raises(UserError, match=message):
        make()
