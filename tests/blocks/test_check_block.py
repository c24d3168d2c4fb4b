"""`check_block` passes every shipped layer, and refuses each way in which one can break its promises."""

import block_cases
import keras
import numpy as np
import pytest
from keras import ops

from unetkit.blocks import Block, ConvBlock, Head, MaxPool, NearestConv, Upsample
from unetkit.errors import UserError
from unetkit.testing import check_block


@pytest.mark.parametrize("name", block_cases.CASES)
def test_shipped_layers_keep_every_promise(name):
    layer, args = block_cases.CASES[name]
    check_block(layer, **args)


@pytest.mark.parametrize("name", block_cases.SIGNALS)
def test_shipped_layers_keep_every_promise_on_signals(name):
    layer, args = block_cases.SIGNALS[name]
    check_block(layer, input_shape=(16, 4), **args)


@pytest.mark.parametrize("layer", [ConvBlock, MaxPool, NearestConv, Head])
def test_a_rank_that_does_not_exist_is_refused(layer):
    with pytest.raises(UserError, match=rf"^{layer.__name__}: rank=3 must be 1, for signals, or 2, for images"):
        layer(4, rank=3)


def test_a_function_that_makes_a_layer_is_checked_too():
    check_block(lambda name: ConvBlock(4, name=name))


class Pointwise(Block):
    """The smallest block that works: what the broken ones below start from."""

    def __init__(self, channels, expansion=2, **settings):
        super().__init__(channels, **settings)
        self.expansion = expansion
        self.wide = keras.layers.Conv2D(expansion * self.channels, 1, name="wide", dtype=self.dtype_policy)
        self.narrow = keras.layers.Conv2D(self.channels, 1, name="narrow", dtype=self.dtype_policy)

    def transform(self, x, training):
        return self.narrow(self.activate(self.wide(x)))

    def get_config(self):
        return super().get_config() | {"expansion": self.expansion}


def test_a_subclass_with_an_argument_of_its_own_passes():
    check_block(Pointwise, expansion=3, residual="concat")


class LosesArgument(Pointwise):
    get_config = Block.get_config


class ChangesArgument(Pointwise):
    def get_config(self):
        return super().get_config() | {"expansion": 2}


class UnusedWeight(Pointwise):
    def transform(self, x, training):
        return ops.stop_gradient(self.narrow(self.wide(x))) + self.narrow(ops.zeros_like(self.wide(x)) + x[..., :1])


class RandomAtInference(Pointwise):
    def __init__(self, channels, **settings):
        super().__init__(channels, **settings)
        self.random = keras.random.SeedGenerator(0)

    def transform(self, x, training):
        y = super().transform(x, training)
        return y + keras.random.normal(ops.shape(y), seed=self.random)


class WrongShape(Pointwise):
    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 2 * self.channels)


class HalfWeights(Pointwise):
    def build(self, input_shape):
        super().build(input_shape)
        self.scale = self.add_weight(name="scale", shape=(), initializer="ones", dtype=self.compute_dtype)

    def call(self, x, training=None):
        y = super().call(x, training)
        return y * ops.cast(self.scale, y.dtype) if self.built else y


class AutoNames(Pointwise):
    def __init__(self, channels, **settings):
        super().__init__(channels, **settings)
        self.narrow = keras.layers.Conv2D(self.channels, 1)


class SizedWeight(Pointwise):
    def build(self, input_shape):
        super().build(input_shape)
        self.place = self.add_weight(name="place", shape=(*input_shape[1:3], self.channels))

    def call(self, x, training=None):
        y = super().call(x, training)
        return y + self.place if self.built else y


class NotFinite(Pointwise):
    def transform(self, x, training):
        return super().transform(x, training) / ops.zeros_like(x[..., :1])


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (LosesArgument, r"LosesArgument.get_config lacks expansion"),
        (ChangesArgument, r"does not return the arguments it was given: expansion=2 instead of 3"),
        (UnusedWeight, r"the gradient does not reach probe/wide/kernel"),
        (RandomAtInference, r"two calls with training=False differ"),
        (WrongShape, r"says that its output is \(8, 8, 16\), but it is \(8, 8, 8\)"),
        (HalfWeights, r"weights must stay float32; probe/scale did not"),
        (AutoNames, r"give every sublayer a name of its own"),
        (SizedWeight, r"built again for a larger image"),
        (NotFinite, r"outputs of unit normal inputs are not finite"),
    ],
)
def test_broken_blocks_are_told_what_is_broken(broken, message):
    args = {"expansion": 3} if broken in (LosesArgument, ChangesArgument) else {}
    with pytest.raises(AssertionError, match=message):
        check_block(broken, **args)


class Shrinks(Block):
    def transform(self, x, training):
        return x[:, 1:, :, :]


class Triples(Upsample):
    def resize(self, x):
        return ops.repeat(x, 3, axis=1)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (Shrinks(4, name="s"), r"Shrinks.transform: turned \(2, 8, 8, 4\) into \(2, 7, 8, 4\), but must return \(2, 8, 8, 4\)"),
        (Triples(4, name="t"), r"Triples.resize: turned \(2, 8, 8, 4\) into \(2, 24, 8, 4\), but must return \(2, 16, 16, 4\)"),
    ],
)
def test_a_method_that_breaks_its_contract_is_refused_when_the_layer_is_built(layer, message):
    with pytest.raises(UserError, match=message):
        layer.build((2, 8, 8, 4))


@pytest.mark.parametrize("base", [Block, Upsample])
def test_bases_do_not_work_unfilled(base):
    with pytest.raises(NotImplementedError, match="must define"):
        base(4)(np.zeros((1, 4, 4, 4), "float32"))
