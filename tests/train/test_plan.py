"""Intervals in images become steps, and no call crosses the end of an interval."""

from hypothesis import given
from hypothesis import strategies as st

from unetkit.recipe import schema
from unetkit.train.plan import make_plan


def recipe(**training):
    intervals = training.pop("intervals", {})
    return schema.Recipe(
        name="t",
        data=schema.Data(source=schema.Emoji()),
        training=schema.Training(**training),
        logging=schema.Logging(every_images=intervals.get("log"), validate_every_images=intervals.get("validate")),
        checkpoint=schema.Checkpoint(every_images=intervals.get("save")),
    )


@given(
    images=st.integers(1, 500),
    batch=st.integers(1, 33),
    per_call=st.integers(1, 9),
    log=st.integers(1, 100),
    save=st.integers(1, 300),
    begin=st.integers(0, 30),
)
def test_calls_cover_every_step_once_and_meet_every_interval(images, batch, per_call, log, save, begin):
    plan = make_plan(recipe(images=images, batch=batch, steps_per_call=per_call, intervals={"log": log, "save": save}), 1000)
    begin = min(begin, plan.steps)
    calls = list(plan.calls(begin))
    covered = [s for first, count in calls for s in range(first, first + count)]
    assert covered == list(range(begin, plan.steps))
    ends = {first + count for first, count in calls}
    for every in (plan.log, plan.save, plan.validate, plan.sample):
        assert {s for s in range(begin + 1, plan.steps + 1) if every.due(s)} <= ends
    assert all(1 <= count <= per_call for _, count in calls)


def test_length_in_epochs_counts_the_training_images():
    assert make_plan(recipe(epochs=2.5, batch=10), 100).steps == 25


def test_length_is_whole_steps_and_at_least_one():
    assert make_plan(recipe(images=101, batch=10), 100).images == 110
    assert make_plan(recipe(images=1, batch=10), 100).steps == 1


def test_default_intervals_are_shares_of_the_run():
    plan = make_plan(recipe(images=10_000, batch=10), 100)
    assert (plan.log.steps, plan.validate.steps, plan.save.steps) == (10, 100, 100)
