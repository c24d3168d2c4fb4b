"""The original network: what its own code computed, and its arguments."""

import numpy as np
import original_records as records
import pytest

from unetkit.blocks import Level
from unetkit.errors import UserError
from unetkit.models import load_original_weights, original_unet


@pytest.mark.parametrize("path", records.RECORDS, ids=lambda path: path.stem)
def test_outputs_loss_and_gradients_are_the_original_ones(path):
    records.check_record(path)


def test_all_seven_records_are_there():
    assert len(records.RECORDS) == 7


def test_channels_grow_level_by_level_and_are_cut_to_whole_numbers():
    model = original_unet((24, 16, 3), start_ch=5, depth=3, inc_rate=1.5)
    assert [level.channels for level in model.levels] == [5, 7, 10, 15]


def test_output_channels_are_the_inputs_unless_given():
    assert original_unet((16, 16, 4), start_ch=2, depth=1).output_shape == (None, 16, 16, 4)
    assert original_unet((16, 16, 4), start_ch=2, depth=1, output_channels=1).output_shape == (None, 16, 16, 1)


def test_depth_0_is_one_block_and_the_head():
    model = original_unet((7, 5, 3), start_ch=2, depth=0)
    assert {weight.path.split("/")[0] for weight in model.weights} == {"bottom", "head"}


def test_dropout_works_at_the_bottom_alone_and_in_training_alone():
    model = original_unet((16, 16, 3), start_ch=4, depth=2, dropout=0.5)
    rates = {layer.name: layer.stack[0].drop.rate for layer in model.layers if isinstance(layer, Level)}
    assert rates == {"down_0": 0.0, "down_1": 0.0, "bottom": 0.5, "up_1": 0.0, "up_0": 0.0}
    x = np.random.default_rng(0).normal(size=(2, 16, 16, 3)).astype("float32")
    assert np.array_equal(model(x, training=False), model(x, training=False))
    assert not np.array_equal(model(x, training=True), model(x, training=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"leaky_relu_alpha": -0.1}, "leaky_relu_alpha=-0.1 must be 0 or more"),
        ({"inc_rate": 0.1}, r"inc_rate=0.1 leaves levels of \[4, 0, 0\] channels"),
        ({"depth": -1}, "depth=-1 must be a whole number, 0 or more"),
        ({"start_ch": 0}, "start_ch=0 must be a whole number, 1 or more"),
        ({"dropout": 1.0}, "dropout=1.0 must be a number from 0 up to, not including, 1"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(UserError, match=message):
        original_unet((16, 16, 3), **{"start_ch": 4, "depth": 2} | arguments)


@pytest.mark.parametrize(("alpha", "slope"), [(None, 0.2), (0, 0.0), (0.2, 0.2), (0.35, 0.35)])
def test_leaky_relu_alpha_reaches_every_activation(alpha, slope):
    model = original_unet((4, 4, 1), start_ch=1, depth=1, leaky_relu_alpha=alpha)
    activations = [layer.activate for layer in model._flatten_layers() if hasattr(layer, "activate")]
    assert len(activations) == 4  # down, bottom, up-sampler, up
    values = np.array([-1.0, 2.0], "float32")
    for activate in activations:
        assert np.array_equal(activate(values), np.array([-slope, 2.0], "float32"))


def test_a_wrong_number_of_arrays_changes_nothing():
    record = np.load(records.RECORDS[0])
    model = records.model_of(record)
    before = model.get_weights()
    with pytest.raises(UserError, match="received 25 arrays, but the model has 26 weights"):
        load_original_weights(model, records.variables_of(record)[1:])
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))


def test_a_wrong_shape_names_the_array_and_the_weight_and_changes_nothing():
    record = np.load(records.RECORDS[0])
    model = records.model_of(record)
    before = model.get_weights()
    arrays = [array + 1 for array in records.variables_of(record)]
    arrays[12] = arrays[12].swapaxes(2, 3)
    with pytest.raises(UserError, match=r"array 12 is \(3, 3, 24, 12\), but upsample_1/conv/kernel is \(3, 3, 12, 24\)"):
        load_original_weights(model, arrays)
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
