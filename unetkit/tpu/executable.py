"""The memory of the program that an attached TPU really runs, under JAX: it takes the place of the estimate.

Not run on a TPU by this project: there was none. What is tested is the same code on a CPU, whose executables carry the same
figures.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from unetkit.tpu.answer import Answer, Hbm

if TYPE_CHECKING:
    import keras

    from unetkit.recipe import Recipe

NOTE = "Memory is that of the executable on the attached TPU; padding and buffers are the compiler's estimate."


def attached() -> bool:
    """Whether Keras runs on JAX here, with a TPU."""
    import keras

    if keras.backend.backend() != "jax":
        return False
    import jax

    return jax.default_backend() == "tpu"


def of_keras(model: keras.Model, data: Any) -> Any:
    """The memory figures of one `fit` step.

    Args:
        model: compiled, its optimizer built.
        data: (inputs, targets) of a batch, or things with their shapes and dtypes.
    """
    import jax

    groups = (model.trainable_variables, model.non_trainable_variables, model.optimizer.variables, model.metrics_variables)
    state = tuple([jax.ShapeDtypeStruct(v.shape, v.dtype) for v in group] for group in groups)
    data = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), data)
    return jax.jit(model.train_step, donate_argnums=0).lower(state, data).compile().memory_analysis()


def of_recipe(recipe: Recipe, network: keras.Model, optimizer: keras.Optimizer) -> Any:
    """The memory figures of the trainer's step.

    Args:
        recipe: what is trained.
        network: the network that trains.
        optimizer: its optimizer, built.
    """
    import jax

    from unetkit import build
    from unetkit.train.engines import jax as engine
    from unetkit.train.plan import make_plan

    options = build.options(recipe, jit=True)
    goal = build.objective(recipe, network)
    optimizers = {goal.main: optimizer}
    if len(goal.networks) > 1:
        optimizers = build.optimizers(recipe, goal, make_plan(recipe, train_images=recipe.training.batch)) | optimizers
    state = jax.eval_shape(lambda: engine.initial_state(goal, optimizers, options))
    shapes = goal.batch_shapes()
    mesh = jax.make_mesh((jax.device_count(),), (engine.AXIS,))
    arguments = engine.abstract_arguments(state, shapes, options, mesh)
    return engine.jitted(goal, optimizers, options).lower(*arguments).compile().memory_analysis()


def replace(answer: Answer, stats: Any) -> Answer:
    """The answer with an executable's memory in place of the estimated one.

    Args:
        answer: the estimate.
        stats: `CompiledMemoryStats` of one device.
    """
    aliased = stats.alias_size_in_bytes
    peak = stats.argument_size_in_bytes + stats.output_size_in_bytes - aliased + stats.temp_size_in_bytes
    hbm = Hbm(
        limit_bytes=answer.hbm.limit_bytes,
        peak_bytes=peak,
        argument_bytes=stats.argument_size_in_bytes,
        output_bytes=stats.output_size_in_bytes - aliased,
        alias_bytes=aliased,
        temp_bytes=stats.temp_size_in_bytes,
        code_bytes=stats.generated_code_size_in_bytes,
        weight_bytes=answer.hbm.weight_bytes,
        optimizer_bytes=answer.hbm.optimizer_bytes,
        input_bytes=answer.hbm.input_bytes,
    )
    return dataclasses.replace(answer, source="executable", fits=True, hbm=hbm, notes=(*answer.notes, NOTE))
