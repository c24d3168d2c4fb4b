"""Recipe section `optimizer` -> a Keras optimizer: schedule, warm-up, clipping, and weight decay that knows its weights."""

import fnmatch
import math

import keras
from keras import ops

from unetkit.addons import optimizers as addons
from unetkit.errors import UserError
from unetkit.recipe.optimizer_schema import Optimizer

COMMON = {"name", "learning_rate", "schedule", "final_share", "warmup_images", "weight_decay", "no_decay", "clip_norm"}
CLASSES = {
    "adam": keras.optimizers.Adam,
    "adamw": keras.optimizers.AdamW,
    "sgd": keras.optimizers.SGD,
    "rmsprop": keras.optimizers.RMSprop,
    "lion": keras.optimizers.Lion,
    "lamb": keras.optimizers.Lamb,
    "rectified_adam": addons.RectifiedAdam,
    "novograd": addons.NovoGrad,
}


def lookahead(inner: str = "adam", sync_period: int = 6, slow_step_size: float = 0.5, name: str = "lookahead", **common):
    """Lookahead around one of `CLASSES`, which has the common settings."""
    return addons.Lookahead(CLASSES[inner](name=inner, **common), sync_period, slow_step_size, name=name)


MAKERS = {**CLASSES, "lookahead": lookahead}
NEVER_DECAYED = ("bias", "gamma", "beta", "scale")


@keras.saving.register_keras_serializable("unetkit")
class ImageSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate by images seen: a linear warm-up, then constant, cosine (Loshchilov & Hutter 2017) or linear.

    Args:
        peak: rate after the warm-up.
        kind: `constant`, `cosine` or `linear`.
        batch: images per step.
        images: length of the run; the last step's rate is near `final_share * peak` for cosine and linear.
        warmup_images: the first step's rate is `peak * batch / warmup_images`, not 0, so that no step is wasted.
        final_share: rate at the end over the peak.
    """

    def __init__(self, peak: float, kind: str, batch: int, images: int, warmup_images: int = 0, final_share: float = 0.0) -> None:
        if warmup_images >= images and warmup_images:
            raise UserError(f"optimizer.warmup_images: {warmup_images} is not below the run's length of {images} images.")
        self.peak, self.kind, self.batch, self.images = peak, kind, batch, images
        self.warmup_images, self.final_share = warmup_images, final_share

    def __call__(self, step):
        seen = ops.cast(step, "float32") * self.batch
        done = ops.clip((seen - self.warmup_images) / (self.images - self.warmup_images), 0.0, 1.0)
        if self.kind == "cosine":
            factor = 0.5 * (1.0 + ops.cos(math.pi * done))
        elif self.kind == "linear":
            factor = 1.0 - done
        else:
            factor = ops.ones_like(done)
        if self.kind != "constant":
            factor = self.final_share + (1.0 - self.final_share) * factor
        warm = ops.minimum((seen + self.batch) / self.warmup_images, 1.0) if self.warmup_images else 1.0
        return self.peak * factor * warm

    def get_config(self):
        return {
            "peak": self.peak,
            "kind": self.kind,
            "batch": self.batch,
            "images": self.images,
            "warmup_images": self.warmup_images,
            "final_share": self.final_share,
        }


def undecayed(variables: list[keras.Variable], patterns: tuple[str, ...]) -> list[keras.Variable]:
    """Weights exempt from weight decay: biases, norm scales and offsets, and those whose path matches a pattern.

    Raises:
        UserError: a pattern that matches no weight (Keras itself matches short names and says nothing).
    """
    exempt = [v for v in variables if v.path.rsplit("/", 1)[-1] in NEVER_DECAYED]
    for pattern in patterns:
        matched = [v for v in variables if fnmatch.fnmatch(v.path, pattern)]
        if not matched:
            some = ", ".join(v.path for v in variables[:3])
            raise UserError(f"optimizer.no_decay: {pattern!r} matches no weight. Weights are named like {some}.")
        exempt += [v for v in matched if not any(v is e for e in exempt)]
    return exempt


def make_optimizer(section: Optimizer, variables: list[keras.Variable], *, batch: int, images: int, precision: str = "float32"):
    """Builds the optimizer of one network, its slots included.

    Args:
        section: the recipe's `optimizer`.
        variables: the network's trainable variables.
        batch: global batch.
        images: length of the run in images.
        precision: `mixed_float16` wraps it in a `LossScaleOptimizer`.
    """
    own = {name: value for name, value in vars(section).items() if name not in COMMON}
    schedule = ImageSchedule(section.learning_rate, section.schedule, batch, images, section.warmup_images, section.final_share)
    optimizer = MAKERS[section.name](
        learning_rate=schedule,
        weight_decay=section.weight_decay or None,
        global_clipnorm=section.clip_norm,
        name=section.name,  # not Keras' counter: a second run in the same process must find its slots under the same names
        **own,
    )
    exempt = undecayed(variables, section.no_decay)
    if section.weight_decay:
        optimizer.exclude_from_weight_decay(var_list=exempt)
    if precision == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, name="loss_scale")
    optimizer.build(variables)
    return optimizer
