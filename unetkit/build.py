"""Recipe -> objects: the only room that knows both the recipe's keys and the constructors.

A recipe section has exactly the argument names of what it builds, so most of this file is `**arguments(section)`.
"""

import contextlib
import dataclasses
import hashlib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from unetkit import blocks, models, objectives, shapes
from unetkit.blocks.precision import dtype_policy
from unetkit.errors import UserError
from unetkit.recipe import schema
from unetkit.recipe.checks import halvings
from unetkit.train.devices import Devices, use_jit
from unetkit.train.engines.base import Engine, Options, assign_all
from unetkit.train.optimizers import make_optimizer
from unetkit.train.plan import Plan
from unetkit.train.step import is_seed

OBJECTIVES = {
    "translation": objectives.Translation,
    "adversarial": objectives.Adversarial,
    "flow": objectives.Flow,
    "diffusion": objectives.Diffusion,
}
OTHER_ROLES = ("discriminator",)
"""Networks beside the one that makes images: their weights have the role in front of their names."""


def arguments(section: Any, *drop: str) -> dict[str, Any]:
    """A section's keys as keyword arguments, without `drop`."""
    return {f.name: getattr(section, f.name) for f in dataclasses.fields(section) if f.name not in drop}


def network(recipe: schema.Recipe, size: int | tuple[int, ...] | None = None) -> keras.Model:
    """The recipe's U-Net with its initial weights, for images or signals of `size` (default: the training size).

    (b, h, w, data.input_channels) -> (b, h, w, output channels), or (b, w, ...) at rank 1, output in float32; for flow and diffusion a
    list of inputs, see `unetkit.objectives.Generative`. Weights depend on (seed, weight path) alone: not on the engine, nor on the
    size, nor on how it is packed.

    Raises:
        UserError: `lowering: auto`, which `unetkit.callbacks.resolve_lowering` has to make a literal packing of before.
    """
    data, model = recipe.data, recipe.model
    channels = model.output_channels or data.target_channels
    seen, extra = network_inputs(recipe)
    input_shape = (*shapes.as_sides(data.size if size is None else size, getattr(model, "rank", 2)), seen)
    if model.lowering == "auto":
        raise UserError("model.lowering: auto has to be decided before the network is built; unetkit.callbacks.resolve_lowering does.")
    with dtype_policy(recipe.training.precision):
        if isinstance(model, schema.Original):
            net = models.original_unet(input_shape, output_channels=channels, **arguments(model, "preset", "output_channels", "lowering"))
        else:
            levels = tuple(arguments(level) for level in model.levels)
            drop = ("preset", "rank", "levels", "output_channels", "lowering")
            net = models.UNet(input_shape=input_shape, output_channels=channels, levels=levels, **extra, **arguments(model, *drop))
    models.initialize(net, recipe.seed)
    if recipe.training.remat == "blocks":
        blocks.rematerialize(net)
    return net


def network_inputs(recipe: schema.Recipe) -> tuple[int, dict[str, Any]]:
    """Channels of the image that the network takes, and the arguments of `models.UNet` that its other inputs need."""
    goal, data = recipe.objective, recipe.data
    if not isinstance(goal, schema.Flow | schema.Diffusion):
        return data.input_channels, {}
    classes = len(data.classes) if goal.condition == "class" else 0
    return data.target_channels + (data.input_channels if goal.condition == "image" else 0), {"time": True, "classes": classes}


def assign_network(net: keras.Model, weights: Mapping[str, np.ndarray]) -> None:
    """Assigns weights by path; raises UserError where names or shapes differ."""
    assign_all({v.path: v for v in net.variables if not is_seed(v)}, weights, "weights")


def main_weights(weights: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Of a run's weights those of the network that makes images."""
    return {name: value for name, value in weights.items() if not name.startswith(tuple(f"{role}/" for role in OTHER_ROLES))}


def unpacked(recipe: schema.Recipe) -> schema.Recipe:
    """The recipe with the same network in Keras' own layout."""
    return dataclasses.replace(recipe, model=dataclasses.replace(recipe.model, lowering="plain", packing=()))


def objective(recipe: schema.Recipe, net: keras.Model) -> objectives.Objective:
    """The recipe's objective around the network that makes images, and the networks that it trains beside it."""
    section = recipe.objective
    if isinstance(section, schema.Adversarial):
        return objectives.Adversarial(net, discriminator(recipe, net), **arguments(section, "kind", "discriminator"))
    return OBJECTIVES[section.kind](net, **arguments(section, "kind"))


def discriminator(recipe: schema.Recipe, net: keras.Model) -> keras.Model:
    """The discriminator of an adversarial recipe with its initial weights, for the inputs and outputs of `net`."""
    shape = (*net.output_shape[1:-1], net.input_shape[-1] + net.output_shape[-1])
    with dtype_policy(recipe.training.precision):
        made = models.patch_gan(shape, **arguments(recipe.objective.discriminator, "rate_share"))
    models.initialize(made, recipe.seed)
    return made


def optimizers(recipe: schema.Recipe, goal: objectives.Objective, plan: Plan) -> dict[str, keras.Optimizer]:
    """One built optimizer per network."""
    section = dataclasses.replace(recipe.optimizer, learning_rate=learning_rate(recipe))
    sections = {role: section if role == goal.main else _beside(recipe, section, role) for role in goal.networks}
    length = {"batch": plan.batch, "images": plan.images, "precision": recipe.training.precision}
    return {role: make_optimizer(sections[role], net.trainable_variables, **length) for role, net in goal.networks.items()}


def _beside(recipe: schema.Recipe, section: Any, role: str) -> Any:
    """The optimizer of a network beside the main one: the same, but for its learning rate, and patterns of the other's weights."""
    share = getattr(recipe.objective, role).rate_share
    return dataclasses.replace(section, learning_rate=share * section.learning_rate, no_decay=())


def learning_rate(recipe: schema.Recipe) -> float:
    """The peak learning rate at the recipe's batch: linear (Goyal et al. 2017) or square-root scaling from `training.lr_batch`."""
    training, rate = recipe.training, recipe.optimizer.learning_rate
    if training.lr_scaling == "none":
        return rate
    times = training.batch / training.lr_batch
    return rate * (times if training.lr_scaling == "linear" else times**0.5)


def options(recipe: schema.Recipe, *, jit: bool) -> Options:
    """How the step is run."""
    training = recipe.training
    return Options(
        seed=recipe.seed,
        global_batch=training.batch,
        accumulate=training.accumulate,
        steps_per_call=training.steps_per_call,
        ema=training.ema,
        ema_warmup=training.ema_warmup,
        sync_batch_norm=training.sync_batch_norm,
        jit=jit,
        deterministic=recipe.hardware.deterministic,
        precision=training.precision,
    )


def engine(recipe: schema.Recipe, devices: Devices, plan: Plan) -> Engine:
    """Network, objective, optimizers and the engine that trains them on `devices`.

    Raises:
        UserError: the batch cannot be shared evenly.
    """
    check_batch(recipe.training.batch, recipe.training.accumulate, devices.replicas)
    if recipe.backend == "jax":
        from unetkit.train.engines.jax import JaxEngine as chosen

        scope: Any = contextlib.nullcontext()
    else:
        from unetkit.train.engines.tensorflow import TensorFlowEngine as chosen

        scope = devices.handle.scope()
    with scope:
        goal = objective(recipe, network(recipe))
        made = optimizers(recipe, goal, plan)
    return chosen(goal, made, options(recipe, jit=use_jit(recipe.hardware, devices, recipe.backend)), devices.handle)


def check_batch(batch: int, accumulate: int, replicas: int) -> None:
    """Refuses a global batch that replicas and micro-batches do not share evenly, naming the nearest that they do."""
    parts = accumulate * replicas
    if batch % parts:
        near = " or ".join(str(n) for n in shapes.nearest_multiples(batch, parts))
        raise UserError(f"training.batch: {batch} images cannot be shared by {replicas} replicas x {accumulate} micro-batches. Use {near}.")


def callbacks(recipe: schema.Recipe) -> list[keras.callbacks.Callback]:
    """The callbacks that the recipe names."""
    made = []
    for i, named in enumerate(recipe.training.callbacks):
        cls = by_name(named.use, f"training.callbacks[{i}].use")
        if not (isinstance(cls, type) and issubclass(cls, keras.callbacks.Callback)):
            raise UserError(f"training.callbacks[{i}].use: {named.use} is not a keras.callbacks.Callback.")
        try:
            made.append(cls(**named.args))
        except (TypeError, ValueError) as error:
            raise UserError(f"training.callbacks[{i}]: {named.use} cannot be made from these args: {error}") from error
    return made


def by_name(name: str, where: str) -> Any:
    """What `package.module:Name` names."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"{where}: {name!r} cannot be imported ({error}). Write package.module:Class.") from error


@dataclass(frozen=True)
class Restored:
    """A trained run, ready to make images.

    Args:
        recipe: what it was trained from.
        step: of the checkpoint; `averaged` says whether its weights are the EMA.
        weights: by path.
        messages: what its user should be told, as a damaged checkpoint that was passed over.
    """

    recipe: schema.Recipe
    step: int
    averaged: bool
    weights: Mapping[str, np.ndarray]
    messages: tuple[str, ...] = ()

    def network(self, size: int | tuple[int, ...] | None = None) -> keras.Model:
        """The trained network, built for images of `size` (default: the training size)."""
        net = network(unpacked(self.recipe), size)  # for pictures of any size, most often on a CPU
        assign_network(net, self.weights)
        return net

    def prediction(self, size: int | tuple[int, ...] | None = None) -> objectives.Prediction:
        """The trained network with its objective's way of making pictures, for images of `size` (default: the training size)."""
        return objectives.Prediction(objective(self.recipe, self.network(size)))

    @property
    def multiple_of(self) -> int:
        """What the network's halvings need: the total stride of a U-Net."""
        return 2 ** halvings(self.recipe.model)

    @property
    def fingerprint(self) -> str:
        """Differs between networks that compute different things."""
        digest = hashlib.sha256(repr(unpacked(self.recipe).model).encode())
        if isinstance(self.recipe.objective, schema.Flow | schema.Diffusion):  # a sampler is part of what is computed
            digest.update(repr(self.recipe.objective).encode())
        for name, value in sorted(self.weights.items()):
            digest.update(name.encode() + np.ascontiguousarray(value).tobytes())
        return digest.hexdigest()


def restore(run: str | Path, *, allow_code: bool = False, average: bool = True, best: bool = True) -> Restored:
    """Opens a run folder to make images with its best checkpoint (or its latest, with `best=False`).

    Raises:
        UserError: not a run folder, no checkpoint yet, or code is named in it and `allow_code` is False.
    """
    from unetkit import recipe as recipes
    from unetkit import runs

    opened = runs.read(run)
    runs.require_code_allowed(opened.recipe, opened.path, allow_code=allow_code)
    recipe = recipes.read(opened.recipe)
    checkpoint = (opened.best() if best else None) or opened.latest()
    if checkpoint is None:
        raise UserError(f"{run} has no checkpoint yet. Train it first: unetkit train RECIPE --run {run}")
    averaged = average and "ema" in checkpoint.groups
    saved = checkpoint.arrays("weights")
    weights = main_weights(saved | (checkpoint.arrays("ema") if averaged else {}))
    return Restored(recipe, checkpoint.step, averaged, weights, tuple(opened.messages))
