"""Arguments: the recipe's keys are the constructor's, and what does not fit is refused by name."""

import dataclasses
import inspect

import pytest

from unetkit.blocks import ConvBlock
from unetkit.errors import UserError
from unetkit.models import LevelSpec, UNet, original_unet
from unetkit.recipe import schema

BUILT_ELSEWHERE = {"preset", "rank", "lowering"}  # which constructor, and how it is laid out, is chosen before it is called
NOT_IN_RECIPE = {
    "self",
    "input_shape",
    "time",
    "classes",
    "name",
    "dtype",
}  # data.size, the objective, the recipe's name, training.precision


def defaults_of(section) -> dict:
    fields = dataclasses.fields(section)
    return {f.name: f.default_factory() if f.default is dataclasses.MISSING else f.default for f in fields if f.name not in BUILT_ELSEWHERE}


def parameters_of(function) -> dict:
    return {name: p.default for name, p in inspect.signature(function).parameters.items() if name not in NOT_IN_RECIPE}


def test_the_recipe_section_has_the_arguments_and_defaults_of_the_network():
    recipe, network = defaults_of(schema.UNet), parameters_of(UNet.__init__)
    assert recipe.pop("block_args") == {} and network.pop("block_args") is None
    recipe["levels"] = tuple(level.channels for level in recipe["levels"])
    assert recipe == network


def test_the_recipe_section_has_the_arguments_and_defaults_of_the_original():
    assert defaults_of(schema.Original) == parameters_of(original_unet)


def test_the_recipe_levels_have_the_fields_and_defaults_of_the_network_levels():
    def fields(cls):
        return {f.name: f.default for f in dataclasses.fields(cls)}

    assert fields(schema.Level) == fields(LevelSpec)


def test_levels_may_be_numbers_mappings_or_the_recipes_own():
    model = UNet((8, 8, 3), levels=(4, {"channels": 8, "blocks": 2}, schema.Level(channels=16, norm="none", attention=True)))
    assert model.levels == (
        LevelSpec(channels=4),
        LevelSpec(channels=8, blocks=2),
        LevelSpec(channels=16, norm="none", attention=True),
    )


def test_a_level_overrides_the_model_and_leaves_the_others_alone():
    levels = (4, {"channels": 8, "blocks": 2, "norm": "none", "dropout": 0.3, "attention": True}, 16)
    model = UNet((8, 8, 3), levels=levels, norm="batch", dropout=0.5)
    seen = {
        place: [(type(part).__name__, part.norm, getattr(part, "dropout", None)) for part in model.get_layer(place).stack]
        for place in ("down_0", "down_1", "bottom", "up_1", "up_0")
    }
    second = [("ConvBlock", "none", 0.3)] * 2 + [("SelfAttention", "none", None)]
    outer = [("ConvBlock", "batch", 0.0)]
    assert seen == {"down_0": outer, "down_1": second, "bottom": [("ConvBlock", "batch", 0.5)], "up_1": second, "up_0": outer}


class Wide(ConvBlock):
    def __init__(self, channels, factor=2, **settings):
        super().__init__(channels, **settings)
        self.factor = factor

    def get_config(self):
        return super().get_config() | {"factor": self.factor}


def test_a_block_of_ones_own_gets_its_arguments_and_the_models_settings():
    model = UNet((4, 4, 3), levels=(4, 8), block=Wide, block_args={"factor": 3}, activation="relu", kernel_size=5)
    block = model.get_layer("up_0").stack[0]
    assert (type(block), block.factor, block.activation, block.kernel_size) == (Wide, 3, "relu", 5)
    assert model.block == f"{__name__}:Wide"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"levels": ()}, "needs at least one level, received none"),
        (
            {"levels": (4, {"channels": 8, "chanels": 1})},
            r"levels\[1\]: unknown key 'chanels'\. Did you mean 'channels'\?",
        ),
        ({"levels": (4, {"blocks": 1})}, r"levels\[1\]: channels is missing"),
        ({"levels": (4, 0)}, r"levels\[1\]: channels=0 must be a whole number, 1 or more"),
        ({"levels": ("4",)}, r"levels\[0\]: channels='4' must be a whole number"),
        ({"kernel_size": 4}, "kernel_size=4 must be odd; the nearest are 3 and 5"),
        ({"blocks": 0}, "blocks=0 must be a whole number, 1 or more"),
        ({"blocks": True}, "blocks=True must be a whole number, 1 or more"),
        ({"norm": "bacth"}, r"norm='bacth' is not one of .* Did you mean 'batch'\?"),
        ({"residual": "sum"}, "residual='sum' is not one of none, add, concat"),
        ({"dropout": 1.5}, "dropout=1.5 must be a number from 0 up to"),
        ({"down": "maxpool"}, r"down: 'maxpool' is neither max_pool, strided_conv nor package.module:Class. Did you mean 'max_pool'\?"),
        ({"up": "nearest"}, r"up: 'nearest' is neither transposed_conv, nearest_conv, bilinear_conv .*"),
        ({"output_channels": 0}, "output_channels=0 must be a whole number, 1 or more"),
        ({"output_activation": "relu"}, "activation='relu' is not one of tanh, linear"),
        ({"levels": (4, {"channels": 6, "attention": True})}, "heads=4 does not divide 6 channels; the nearest that do: 3 and 6"),
        ({"block_args": {"norm": "none"}}, "block_args: norm is set by the model's own norm"),
        ({"block_args": {"width": 2}}, "conv: no argument 'width'"),
        ({"activation": "leaky_relu", "negative_slope": -1}, "negative_slope=-1 must be a number, 0 or more"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(arguments, message):
    with pytest.raises(UserError, match=message):
        UNet((8, 8, 3), **{"levels": (4, 8)} | arguments)
