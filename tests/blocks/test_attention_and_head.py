"""Self-attention against its formula; the head in float32."""

import keras
import numpy as np
import pytest

from unetkit.blocks import Head, SelfAttention
from unetkit.blocks.precision import dtype_policy
from unetkit.errors import UserError
from unetkit.testing import compiled, randomize


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_attention_is_the_formula_head_by_head():
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 6)).astype("float32")
    layer = SelfAttention(heads=2, norm="none")
    layer.build(x.shape)
    randomize(layer)
    qkv = x.reshape(2, 12, 6) @ layer.query_key_value.kernel.numpy() + layer.query_key_value.bias.numpy()
    query, key, value = np.split(qkv, 3, -1)
    heads = []
    for h in (slice(0, 3), slice(3, 6)):
        weights = softmax(query[..., h] @ key[..., h].transpose(0, 2, 1) / np.sqrt(3))
        heads.append(weights @ value[..., h])
    expected = x + (np.concatenate(heads, -1) @ layer.projection.kernel.numpy() + layer.projection.bias.numpy()).reshape(x.shape)
    assert np.allclose(compiled(layer)(x), expected, atol=1e-5)


def test_attention_is_softened_in_float32_under_bfloat16(monkeypatch):
    seen = []
    softmax = keras.ops.softmax
    monkeypatch.setattr(keras.ops, "softmax", lambda x: seen.append(keras.backend.standardize_dtype(x.dtype)) or softmax(x))
    with dtype_policy("mixed_bfloat16"):
        layer = SelfAttention(heads=2)
        y = layer(np.ones((1, 4, 4, 8), "float32"))
    assert set(seen) == {"float32"}
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"


def test_heads_that_do_not_divide_name_the_nearest_that_do():
    with pytest.raises(UserError, match="heads=5 does not divide 12 channels; the nearest that do: 4 and 6"):
        SelfAttention(heads=5).build((1, 4, 4, 12))


def test_head_is_float32_and_within_1_whatever_the_policy():
    with dtype_policy("mixed_bfloat16"):
        head = Head(3)
        y = head(np.full((1, 2, 2, 4), 1e4, "float32"))
        assert keras.backend.standardize_dtype(y.dtype) == "float32"
        assert {weight.dtype for weight in head.weights} == {"float32"}
        assert np.abs(y).max() <= 1
        small = np.full((1, 1, 1, 4), 0.7, "float32")
        found = keras.ops.convert_to_numpy(head(small))
    expected = np.tanh(small @ head.conv.kernel.numpy()[0, 0] + head.conv.bias.numpy())
    assert np.abs(found - expected).max() < 1e-6


def test_a_16_bit_head_is_refused():
    with pytest.raises(UserError, match="the head computes in float32 whatever the policy"):
        Head(3, dtype="mixed_bfloat16")


def test_a_head_knows_tanh_and_linear():
    with pytest.raises(UserError, match="activation='sigmoid' is not one of tanh, linear"):
        Head(3, activation="sigmoid")
