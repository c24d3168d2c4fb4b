"""Schedules by images, and weight decay that knows which weights it is for (CASES B08)."""

import typing

import keras
import numpy as np
import pytest

from unetkit.errors import UserError
from unetkit.recipe import schema
from unetkit.train.optimizers import CLASSES, COMMON, MAKERS, ImageSchedule, make_optimizer, undecayed

SECTIONS = {
    s.__dataclass_fields__["name"].default: s
    for s in (
        schema.Adam,
        schema.AdamW,
        schema.Sgd,
        schema.RMSprop,
        schema.Lion,
        schema.Lamb,
        schema.RectifiedAdam,
        schema.NovoGrad,
        schema.Lookahead,
    )
}


def rates(steps, **arguments):
    schedule = ImageSchedule(**{"peak": 1.0, "kind": "constant", "batch": 10, "images": 100, **arguments})
    return [float(keras.ops.convert_to_numpy(schedule(s))) for s in steps]


def tiny():
    inputs = keras.Input((4, 4, 2))
    x = keras.layers.Conv2D(3, 3, padding="same", name="conv")(inputs)
    x = keras.layers.BatchNormalization(name="norm")(x)
    return keras.Model(inputs, x)


def test_warm_up_rises_from_the_first_step_and_reaches_the_peak():
    assert rates([0, 1, 3, 4, 9], warmup_images=40) == pytest.approx([0.25, 0.5, 1.0, 1.0, 1.0])


def test_cosine_and_linear_end_at_their_final_share():
    assert rates([0, 5, 10], kind="cosine") == pytest.approx([1.0, 0.5, 0.0], abs=1e-6)
    assert rates([0, 5, 10], kind="linear", final_share=0.2) == pytest.approx([1.0, 0.6, 0.2])


def test_rate_depends_on_images_not_on_the_batch():
    assert rates([8], batch=5, kind="cosine") == pytest.approx(rates([4], batch=10, kind="cosine"))


def test_warm_up_longer_than_the_run_is_refused():
    with pytest.raises(UserError, match="warmup_images: 200"):
        ImageSchedule(1.0, "constant", 10, 100, warmup_images=200)


def test_every_optimizer_of_the_recipe_is_known_with_exactly_its_own_arguments():
    assert set(SECTIONS) == set(MAKERS)
    inner = typing.get_type_hints(schema.Lookahead)["inner"]
    assert set(typing.get_args(inner)) == set(CLASSES)
    for name, section in SECTIONS.items():
        known = {"inner"} | set(MAKERS[name](learning_rate=1e-3).get_config())
        assert set(section.__dataclass_fields__) - COMMON <= known, name


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_every_optimizer_takes_a_step(name):
    model = tiny()
    before = [v.numpy() for v in model.trainable_variables]
    optimizer = make_optimizer(SECTIONS[name](), model.trainable_variables, batch=1, images=10)
    optimizer.apply([np.ones(v.shape, np.float32) for v in model.trainable_variables], model.trainable_variables)
    assert all(np.abs(v.numpy() - b).max() > 0 for v, b in zip(model.trainable_variables, before, strict=True))


@pytest.mark.parametrize(
    "section",
    [
        schema.AdamW(learning_rate=0.1, weight_decay=0.1),
        schema.RectifiedAdam(learning_rate=0.1, weight_decay=0.1),
        schema.NovoGrad(learning_rate=0.1, weight_decay=0.1),
        schema.Lookahead(learning_rate=0.1, weight_decay=0.1),
    ],
    ids=lambda section: section.name,
)
def test_decay_moves_kernels_and_spares_biases_and_norms(section):
    model = tiny()
    optimizer = make_optimizer(section, model.trainable_variables, batch=1, images=10)
    before = {v.path: v.numpy() for v in model.trainable_variables}
    optimizer.apply([np.zeros(v.shape, np.float32) for v in model.trainable_variables], model.trainable_variables)
    for variable in model.trainable_variables:
        factor = 0.99 if variable.path == "conv/kernel" else 1.0
        np.testing.assert_allclose(variable.numpy(), before[variable.path] * factor, rtol=1e-6, err_msg=variable.path)


def test_no_decay_pattern_matches_paths_and_one_that_matches_nothing_is_an_error():
    variables = tiny().trainable_variables
    assert {v.path for v in undecayed(variables, ("conv/*",))} == {v.path for v in variables}
    with pytest.raises(UserError, match="batchnormm"):
        undecayed(variables, ("batchnormm",))


def test_clipping_bounds_the_global_norm():
    model = tiny()
    optimizer = make_optimizer(schema.Sgd(learning_rate=1.0, clip_norm=0.5), model.trainable_variables, batch=1, images=10)
    before = [v.numpy() for v in model.trainable_variables]
    optimizer.apply([np.ones(v.shape, np.float32) for v in model.trainable_variables], model.trainable_variables)
    moved = np.sqrt(sum(((v.numpy() - b) ** 2).sum() for v, b in zip(model.trainable_variables, before, strict=True)))
    assert moved == pytest.approx(0.5, rel=1e-5)
