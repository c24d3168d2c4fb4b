"""The arithmetic model: its graph, what it keeps, and how far its peaks are from the compiler's on the shipped recipes."""

import math

import keras
import numpy as np
import pytest
from keras import ops

from unetkit.errors import UserError
from unetkit.recipe import read
from unetkit.tpu import model, model_graph, model_memory, model_space, model_time
from unetkit.tpu.chips import chip

MIB = 2**20
FOUR_LEVELS = "tests/tpu_edges/records/four_levels.yaml"

# Peak bytes per core that libtpu 0.0.52 gave (jax 0.10.2), the last two for programs that it refused.
COMPILED = {
    (FOUR_LEVELS, "v2-8", 128): 446924800,
    (FOUR_LEVELS, "v2-8", 64): 245645312,
    (FOUR_LEVELS, "v5e-8", 128): 329728512,
    ("recipes/the-question.yaml", "v2-8", 128): 6142352384,
    ("recipes/the-question.yaml", "v2-8", 136): 7334358016,
    ("recipes/the-question.yaml", "v2-8", 192): 7345354752,
    ("recipes/the-question.yaml", "v2-8", 256): 8718800896,
    ("recipes/the-question.yaml", "v2-8", 1024): 22875437056,
}


@pytest.mark.parametrize(("path", "where"), sorted({key[:2] for key in COMPILED}))
def test_peaks_are_within_a_quarter_of_the_compilers(path, where):
    batches = [key[2] for key in COMPILED if key[:2] == (path, where)]
    answers = model.estimate_recipe(read(path), where, batches)
    for answer in answers:
        compiled = COMPILED[path, where, answer.global_batch]
        assert abs(answer.hbm.peak_bytes / compiled - 1) <= 0.25
        assert answer.fits == (compiled <= chip(where).hbm_bytes)
        assert answer.source == "model" and any("compiler was not asked" in note for note in answer.notes)
        assert answer.padding.peak_padded_bytes == answer.hbm.peak_bytes == sum(b.padded_bytes for b in answer.buffers)
        assert answer.curve.padded_bytes[answer.curve.peak] == max(answer.curve.padded_bytes) == answer.hbm.peak_bytes
        assert sum(c.time_share for c in answer.categories) == pytest.approx(1.0)
        assert sum(level.time_share for level in answer.levels) == pytest.approx(1.0)


def test_arguments_are_counted_to_the_byte():
    # What the compiler reserved for them; a scalar more or less of the optimizer takes a tile of 1 KiB.
    (answer,) = model.estimate_recipe(read(FOUR_LEVELS), "v2-8", [128])
    assert (answer.hbm.weight_bytes, answer.hbm.input_bytes) == (9345024, 2097152)
    assert abs(answer.hbm.optimizer_bytes - 18691072) <= 1024


def small(**more):
    image = keras.Input((16, 16, 3))
    x = keras.layers.Conv2D(8, 3, padding="same", name="first", **more)(image)
    x = keras.layers.ReLU(name="relu")(x)
    x = keras.layers.Conv2D(8, 3, padding="same", name="second")(x)
    return keras.Model(image, x)


def test_a_graph_names_every_operation_with_its_shapes():
    graph = model_graph.trace(small(), 4)
    assert [(op.kind, op.layer, op.kernel) for op in graph.ops] == [
        ("Conv2D", "first", (3, 3, 3, 8)),
        ("ReLU", "relu", None),
        ("Conv2D", "second", (3, 3, 8, 8)),
    ]
    assert [t.shape for t in graph.tensors] == [(4, 16, 16, 3), (4, 16, 16, 8), (4, 16, 16, 8), (4, 16, 16, 8)]


def test_tracing_leaves_a_model_as_it_was():
    net = small()
    before = [len(layer._inbound_nodes) for layer in net.layers]
    model_graph.trace(net, 4)
    assert [len(layer._inbound_nodes) for layer in net.layers] == before
    assert net.get_layer("relu").output.shape == (None, 16, 16, 8)


class Twice(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.conv = keras.layers.Conv2D(3, 3, padding="same", name="conv")

    def call(self, x):
        return self.conv(ops.relu(self.conv(x)))


class Opaque(keras.layers.Layer):
    def call(self, x):
        return ops.convert_to_tensor(np.asarray(x))


def test_a_users_layer_is_opened_and_one_that_cannot_be_counts_as_one_operation():
    image = keras.Input((8, 8, 3))
    graph = model_graph.trace(keras.Model(image, Twice(name="twice")(image)), 2)
    assert [(op.kind, op.closed) for op in graph.ops] == [("Conv2D", False), ("Relu", False), ("Conv2D", False)]
    stub = Opaque(name="opaque")
    stub.compute_output_spec = lambda x: keras.KerasTensor(x.shape, dtype=x.dtype)
    graph = model_graph.trace(keras.Model(image, stub(image)), 2)
    assert [(op.kind, op.layer, op.closed) for op in graph.ops] == [("Opaque", "opaque", True)]


def test_what_only_convolutions_read_is_kept_in_16_bits():
    graph = model_graph.trace(small(), 8)
    kept = {b.layer: b.tiled.dtype for b in model_memory.intervals(graph, "v2") if b.kind == "activation"}
    assert kept == {"input": "bf16", "first": "f32", "second": "f32"}  # `first` feeds a ReLU, `second` the loss
    image = keras.Input((16, 16, 3))
    x = keras.layers.Conv2D(8, 3, padding="same", name="first")(image)
    linear = keras.Model(image, keras.layers.Conv2D(8, 3, padding="same", name="second")(x))
    kept = {b.layer: b.tiled.dtype for b in model_memory.intervals(model_graph.trace(linear, 8), "v2") if b.kind == "activation"}
    assert kept["first"] == "bf16"


def test_batch_and_channels_take_whichever_place_is_cheaper():
    def bytes_of(shape, generation="v2", free=False):
        return model_space.place("f32", shape, image=True, free=free, generation=generation).padded_bytes

    assert bytes_of((16, 32, 32, 64)) == 16 * 1024 * 128 * 4  # channels in the lanes, 64 of 128
    assert bytes_of((128, 32, 32, 64)) == 128 * 1024 * 64 * 4  # batch in the lanes, nothing lost
    assert bytes_of((17, 32, 32, 64)) == bytes_of((24, 32, 32, 64))
    assert bytes_of((1, 32, 32, 128), "v5e") == 1024 * 128 * 4  # a row of pixels in the tile
    assert bytes_of((12, 128, 128, 8)) == 128 * 128 * 8 * 128 * 4  # batch in the lanes, 12 of 128
    assert bytes_of((12, 128, 128, 8), free=True) == 12 * 128 * 8 * 128 * 4  # no operand of a convolution: pixels in the lanes


def test_a_program_too_large_makes_activations_again():
    graph = model_graph.trace(small(), 64)
    buffers = model_memory.intervals(graph, "v2")
    free = model_space.Timeline(buffers, "v2")
    squeezed = model_space.squeeze(buffers, "v2", free.padded[free.peak] - 1)
    assert squeezed.padded[squeezed.peak] <= free.padded[free.peak]
    assert model_space.squeeze(buffers, "v2", free.padded[free.peak]).padded == free.padded


def test_memory_on_the_chip_takes_buffers_off_hbm():
    buffers = model_memory.intervals(model_graph.trace(small(), 8), "v5e")
    on_v2, on_v5e = (max(model_space.Timeline(buffers, generation).padded) for generation in ("v2", "v5e"))
    assert 0 < on_v5e < 0.5 * on_v2


@pytest.mark.parametrize(
    ("layer", "flops"),
    [
        (keras.layers.Conv2D(8, 3, padding="same"), 2 * 2 * 64 * 9 * 4 * 8),
        (keras.layers.Conv2D(8, 3, strides=2, padding="same"), 2 * 2 * 16 * 9 * 4 * 8),
        (keras.layers.Conv2DTranspose(8, 3, strides=2, padding="same"), 2 * 2 * 64 * 9 * 4 * 8),
        (keras.layers.DepthwiseConv2D(3, padding="same"), 2 * 2 * 64 * 9 * 4),
        (keras.layers.Dense(8), 2 * 2 * 64 * 4 * 8),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_flops_are_two_for_each_product(layer, flops):
    image = keras.Input((8, 8, 4))
    graph = model_graph.trace(keras.Model(image, layer(image)), 2)
    assert model_time.contraction_flops(graph, graph.ops[0]) == flops


def test_a_model_that_is_not_ours_is_answered():
    net = keras.applications.MobileNetV2(weights=None, input_shape=(32, 32, 3), classes=10)
    answer = model.estimate(net, chip_name="v2-8", batch=64, optimizer="adam")
    assert answer.fits and answer.per_core_batch == 8 and model.SMALL_BATCH not in answer.notes
    assert {c.name for c in answer.categories} >= {"convolution", "all-reduce"}
    weights = sum(4 * math.prod(w.shape) for w in net.trainable_weights)
    assert answer.hbm.weight_bytes >= weights and answer.hbm.optimizer_bytes >= 2 * answer.hbm.weight_bytes


def test_a_small_batch_is_warned_of():
    assert model.SMALL_BATCH in model.estimate(small(), chip_name="v2-8", batch=32).notes


def test_a_batch_that_replicas_cannot_share_is_an_error():
    with pytest.raises(UserError, match="cannot be shared"):
        model.estimate(small(), chip_name="v2-8", batch=12)
    with pytest.raises(UserError, match="cannot be shared"):
        model.estimate_recipe(read(FOUR_LEVELS), "v2-8", [12])
    with pytest.raises(UserError, match="No accelerator was named"):
        model.estimate_recipe(read(FOUR_LEVELS))


def test_the_models_advice_was_tried_by_the_model():
    (answer,) = model.estimate_recipe(read(FOUR_LEVELS), "v2-8", [136], advise=True)
    assert answer.advice and all(a.tried == "model" and a.after < a.before for a in answer.advice)
    assert any("17 are padded to 24" in a.text for a in answer.advice)
    assert any("mixed_bfloat16" in a.text for a in answer.advice)
