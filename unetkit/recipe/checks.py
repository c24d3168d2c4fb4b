"""What must hold between keys: lengths, divisibility, sizes that halve, and options that something else switches off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from unetkit import shapes
from unetkit.errors import UserError
from unetkit.recipe.kinds import section_of
from unetkit.recipe.optimizer_schema import Sgd
from unetkit.recipe.problems import Findings, Place
from unetkit.recipe.schema import Diffusion, Flow, Original, Recipe, Sound, Tones, Translation, UNet

IMAGE_CHANNELS = (1, 3, 4)


class Rule(NamedTuple):
    """`says(recipe)` is what is wrong, or None. It is asked only where all the paths it `reads` are sound; the first is blamed."""

    reads: tuple[str, ...]
    says: Callable[[Recipe], str | None]


class Unused(NamedTuple):
    """A key that means something only under a condition: changed from its default without it, it would be ignored.

    The condition reads the keys `reads`, the first of which is the one to change, and is `wanted` in words.
    """

    path: str
    reads: tuple[str, ...]
    wanted: str
    used: Callable[[Recipe], bool]


def run(recipe: Recipe, found: Findings, place: Callable[[str], Place]) -> None:
    """Adds what every rule finds; `place(path)` says where the value at a path was written."""
    for rule in RULES:
        if any(map(found.touches, rule.reads)):
            continue
        message = rule.says(recipe)
        if message:
            found.add(place(rule.reads[0]), rule.reads[0], message)
    for unused in UNUSED:
        section_path, _, name = unused.path.rpartition(".")
        section = _at(recipe, section_path)
        if any(map(found.touches, (unused.path, *unused.reads))) or not hasattr(section, name) or unused.used(recipe):
            continue
        if getattr(section, name) != section_of(type(section)).keys[name].default():
            message = f"it has no effect unless {unused.wanted}; delete it, or set `{unused.reads[0]}` so"
            found.add(place(unused.path), unused.path, message)


def halvings(model: UNet | Original) -> int:
    """How often the network halves the image: its levels less one."""
    return model.depth if isinstance(model, Original) else len(model.levels) - 1


def _length(recipe: Recipe) -> str | None:
    images, epochs = recipe.training.images, recipe.training.epochs
    if images is None and epochs is None:
        return "how long to train is missing: give `images` (such as 100000) or `epochs` (such as 50)"
    if images is None or epochs is None:
        return None
    return f"images {images} and epochs {epochs:g} are both given; keep one, and set the other to null"


def _batch(recipe: Recipe) -> str | None:
    batch, accumulate, replicas = recipe.training.batch, recipe.training.accumulate, recipe.hardware.replicas or 1
    hosts = recipe.hardware.hosts if isinstance(recipe.hardware.hosts, int) else 1
    multiple = accumulate * replicas * hosts
    if batch == "auto" or batch % multiple == 0:
        return None
    parts = [f"accumulate {accumulate}"] * (accumulate > 1) + [f"replicas {replicas}"] * (replicas > 1) + [f"hosts {hosts}"] * (hosts > 1)
    works = " and ".join(map(str, shapes.nearest_multiples(batch, multiple)))
    return f"{batch} cannot be divided by {' x '.join(parts)}; the nearest that can: {works}"


def _size(recipe: Recipe) -> str | None:
    size, levels, rank = recipe.data.size, halvings(recipe.model), getattr(recipe.model, "rank", 2)
    if rank == 1 and not isinstance(size, int):
        return f"{list(size)} is the size of an image; a signal has one length, such as {max(size)}"
    if levels < 0:
        return None
    try:
        shapes.check_halvable(shapes.as_sides(size, rank), levels, what="data.size")
    except UserError as error:
        return str(error).removeprefix("data.size: ")
    return None


def _rank(recipe: Recipe) -> str | None:
    kind, rank = recipe.data.source.kind, recipe.data.source.rank
    if isinstance(recipe.model, Original) or recipe.model.rank == rank:
        return None
    what = "signals" if rank == 1 else "images"
    return f"{recipe.model.rank} does not fit data.source: {kind}, which has {what}; set rank: {rank}"


def _original(recipe: Recipe) -> str | None:
    wrong = isinstance(recipe.model, Original) and recipe.data.source.rank == 1
    return f"original is for images, and data.source: {recipe.data.source.kind} has signals; use unet with rank: 1" if wrong else None


def _channels(name: str) -> Callable[[Recipe], str | None]:
    def says(recipe: Recipe) -> str | None:
        count, source = getattr(recipe.data, name), recipe.data.source
        if source.rank == 2:
            return None if count in IMAGE_CHANNELS else f"{count} has no meaning for images; 1 is grey, 3 RGB, 4 RGBA"
        if isinstance(source, Tones):
            return None if count == 1 else f"data.source: tones has one channel, received {count}; set {name}: 1"
        other = recipe.data.input_channels
        if isinstance(source, Sound) and count != other:
            return f"{count}, but the task makes the input, of {other}, from the target; give both the same number"
        return None

    return says


def _flip(recipe: Recipe) -> str | None:
    flip = recipe.data.augment.flip
    wrong = recipe.data.source.rank == 1 and flip in ("vertical", "both")
    return f"{flip} mirrors rows, and a signal has none; use horizontal, which mirrors it in time" if wrong else None


def _metric(recipe: Recipe) -> str | None:
    metric, rank = recipe.checkpoint.metric, recipe.data.source.rank
    if metric == "ssim" and rank == 1:
        return "ssim is for images; of signals there are l1, psnr and snr"
    return "snr is for signals; of images there are l1, psnr and ssim" if metric == "snr" and rank == 2 else None


def _loss(recipe: Recipe) -> str | None:
    wrong = recipe.data.source.rank == 1 and getattr(recipe.objective, "loss", "") == "ssim_l1"
    return "ssim_l1 is for images; use l1, l2, charbonnier or psnr for signals" if wrong else None


def _levels(recipe: Recipe) -> str | None:
    return "the list is empty; a network has at least one level" if halvings(recipe.model) < 0 else None


def _growth(recipe: Recipe) -> str | None:
    model = recipe.model
    if isinstance(model, Original):
        channels = shapes.grown_channels(model.start_ch, model.depth, model.inc_rate)
        if min(channels) < 1:
            level = next(number for number, count in enumerate(channels) if count < 1)
            return f"{model.inc_rate:g} leaves level {level} without channels; use a larger one, or a smaller `depth`"
    return None


def _kernel(recipe: Recipe) -> str | None:
    size = getattr(recipe.model, "kernel_size", 1)
    return None if size % 2 else f"{size} is even; the kernel is centred on its pixel, so use {size - 1} or {size + 1}"


def _output(recipe: Recipe) -> str | None:
    output, target = recipe.model.output_channels, recipe.data.target_channels
    return None if output in (None, target) else f"{output} channels cannot be compared with {target} of `data.target_channels`; delete it"


def _packing(recipe: Recipe) -> str | None:
    model = recipe.model
    if model.lowering == "packed" and not model.packing:
        return "it is empty, but `lowering` is packed; give a block per level, such as [[2, 4], [1, 2]], or use lowering: auto"
    levels, rank = halvings(model) + 1, getattr(model, "rank", 2)
    if len(model.packing) > levels:
        return f"{len(model.packing)} blocks for {levels} levels; leave out the last {len(model.packing) - levels}"
    wrong = next((block for block in model.packing if len(block) != rank), None)
    return None if wrong is None else f"{list(wrong)} must be {rank} {'number' if rank == 1 else 'numbers'}, the pixels per axis of a block"


def _heads(recipe: Recipe) -> str | None:
    model = recipe.model
    if not isinstance(model, UNet):
        return None
    wrong = next((level.channels for level in model.levels if level.attention and level.channels % model.heads), None)
    if wrong is None:
        return None
    fits = max(heads for heads in range(1, model.heads + 1) if wrong % heads == 0)
    return f"{model.heads} heads cannot share {wrong} channels; the nearest that can: {fits}"


def _noise_level(recipe: Recipe) -> str | None:
    """Flow and diffusion tell their network the noise level, which not every network takes."""
    if not isinstance(recipe.objective, Flow | Diffusion):
        return None
    if isinstance(recipe.model, Original):
        return f"objective {recipe.objective.kind} tells its network the noise level, which `preset: original` does not take; use unet"
    if recipe.model.block == "conv":
        return f"conv does not take the noise level that objective {recipe.objective.kind} has; use modulated (with residual: add)"
    return None


def _objective_rank(recipe: Recipe) -> str | None:
    if recipe.data.source.rank == 1 and not isinstance(recipe.objective, Translation):
        return f"{recipe.objective.kind} makes images, but the source holds signals; use translation"
    return None


def _unbounded_output(recipe: Recipe) -> str | None:
    if isinstance(recipe.objective, Flow | Diffusion) and getattr(recipe.model, "output_activation", "linear") == "tanh":
        return f"tanh ends at 1, but what objective {recipe.objective.kind} predicts does not; use linear"
    return None


def _guidance(recipe: Recipe) -> str | None:
    goal = recipe.objective
    if isinstance(goal, Flow | Diffusion) and goal.guidance != 1.0 and goal.condition != "none" and goal.condition_dropout == 0.0:
        return f"{goal.guidance:g} needs a network that has also learnt without its condition; set condition_dropout above 0, such as 0.1"
    return None


def _classes(recipe: Recipe) -> str | None:
    if getattr(recipe.objective, "condition", "") == "class" and not recipe.data.classes:
        return "class needs `data.classes`, the names of the folders in which the images of each class lie"
    doubled = sorted({name for name in recipe.data.classes if recipe.data.classes.count(name) > 1})
    return f"data.classes names {', '.join(doubled)} twice" if doubled else None


def _sigmas(recipe: Recipe) -> str | None:
    goal = recipe.objective
    if isinstance(goal, Diffusion) and goal.sigma_min >= goal.sigma_max:
        return f"{goal.sigma_min:g} is not below sigma_max, {goal.sigma_max:g}"
    return None


def _float16(recipe: Recipe) -> str | None:
    if recipe.training.precision != "mixed_float16":
        return None
    if recipe.hardware.device == "tpu" or recipe.tpu.chip:
        return "a TPU computes in bfloat16, not float16; use mixed_bfloat16"
    return None


def _batch_norm(recipe: Recipe) -> str | None:
    if recipe.backend != "jax" or recipe.training.sync_batch_norm:
        return None
    return "JAX sees one batch, however many devices share it, so its statistics are those of all of them; use true, or backend: tensorflow"


def _hosts(recipe: Recipe) -> str | None:
    several = recipe.hardware.hosts not in (None, 1)
    return (
        "several hosts need JAX; add `backend: jax`, which trains the same recipe (docs/engines.md)"
        if several and recipe.backend != "jax"
        else None
    )


def _lr_batch(recipe: Recipe) -> str | None:
    if recipe.training.lr_scaling == "none" or recipe.training.lr_batch is not None:
        return None
    return f"{recipe.training.lr_scaling} needs `lr_batch`, the batch that optimizer.learning_rate is meant for"


def _warmup(recipe: Recipe) -> str | None:
    warmup, images = recipe.optimizer.warmup_images, recipe.training.images
    if images is not None and warmup > images:
        return f"the warm-up of {warmup} images is longer than the run of {images}, so the rate never reaches its peak"
    return None


RULES = (
    Rule(("training", "training.images", "training.epochs"), _length),
    Rule(("training.batch", "training.accumulate", "hardware.replicas", "hardware.hosts"), _batch),
    Rule(("hardware.hosts", "backend"), _hosts),
    Rule(("model.levels",), _levels),
    Rule(("data.size", "model.levels", "model.depth", "model.rank"), _size),
    Rule(("model.rank", "data.source"), _rank),
    Rule(("model.preset", "data.source"), _original),
    Rule(("data.input_channels", "data.source"), _channels("input_channels")),
    Rule(("data.target_channels", "data.input_channels", "data.source"), _channels("target_channels")),
    Rule(("data.augment.flip", "data.source"), _flip),
    Rule(("checkpoint.metric", "data.source"), _metric),
    Rule(("objective.loss", "data.source"), _loss),
    Rule(("model.inc_rate", "model.start_ch", "model.depth"), _growth),
    Rule(("model.kernel_size",), _kernel),
    Rule(("model.output_channels", "data.target_channels"), _output),
    Rule(("model.heads", "model.levels"), _heads),
    Rule(("model.packing", "model.lowering", "model.levels", "model.depth", "model.rank"), _packing),
    Rule(("model.block", "model.preset", "objective.kind"), _noise_level),
    Rule(("model.output_activation", "objective.kind"), _unbounded_output),
    Rule(("objective.kind", "data.source"), _objective_rank),
    Rule(("objective.guidance", "objective.condition", "objective.condition_dropout"), _guidance),
    Rule(("objective.condition", "data.classes"), _classes),
    Rule(("objective.sigma_min", "objective.sigma_max"), _sigmas),
    Rule(("training.precision", "hardware.device", "tpu.chip"), _float16),
    Rule(("training.sync_batch_norm", "backend"), _batch_norm),
    Rule(("optimizer.warmup_images", "training.images"), _warmup),
    Rule(("training.lr_scaling", "training.lr_batch"), _lr_batch),
)


def _has_group_norm(recipe: Recipe) -> bool:
    model = recipe.model
    return isinstance(model, UNet) and any((level.norm or model.norm) == "group" for level in model.levels)


def _has_batch_norm(recipe: Recipe) -> bool:
    model = recipe.model
    if not isinstance(model, UNet):
        return bool(getattr(model, "batchnorm", True))
    return model.block != "conv" or any((level.norm or model.norm) == "batch" for level in model.levels)


def _has_attention(recipe: Recipe) -> bool:
    return isinstance(recipe.model, UNet) and any(level.attention for level in recipe.model.levels)


def _has_images(recipe: Recipe) -> bool:
    return recipe.data.source.rank == 2


def _is(path: str, *values: Any) -> Callable[[Recipe], bool]:
    return lambda recipe: _at(recipe, path) in values


def _conditioned(recipe: Recipe) -> bool:
    return bool(_at(recipe, "objective.condition") != "none")


SNR = ("min_snr", "soft_min_snr")
EDM = ("sigma_data", "sigma_mean", "sigma_spread", "sigma_min", "sigma_max", "rho")
UNUSED = (
    Unused("training.sync_batch_norm", ("model.norm", "model.levels", "model.batchnorm"), "there is batch norm", _has_batch_norm),
    Unused("data.max_bad", ("data.on_bad",), "on_bad is skip", _is("data.on_bad", "skip")),
    Unused("data.resize", ("data.source",), "source holds images", _has_images),
    Unused("data.background", ("data.source",), "source holds images", _has_images),
    Unused("data.augment.crop_margin", ("data.source",), "source holds images", _has_images),
    Unused("model.block_args", ("model.block",), "block names a class of yours", lambda recipe: _at(recipe, "model.block") != "conv"),
    Unused("model.groups", ("model.norm", "model.levels"), "norm is group", _has_group_norm),
    Unused("model.heads", ("model.levels",), "some level has attention", _has_attention),
    Unused("model.packing", ("model.lowering",), "lowering is packed", _is("model.lowering", "packed")),
    Unused("model.negative_slope", ("model.activation",), "activation is leaky_relu", _is("model.activation", "leaky_relu")),
    Unused("objective.ssim_share", ("objective.loss",), "loss is ssim_l1", _is("objective.loss", "ssim_l1")),
    Unused("objective.epsilon", ("objective.loss",), "loss is charbonnier", _is("objective.loss", "charbonnier")),
    Unused("objective.condition_dropout", ("objective.condition",), "there is a condition", _conditioned),
    Unused("data.classes", ("objective.condition",), "condition is class", _is("objective.condition", "class")),
    Unused("objective.guidance", ("objective.condition",), "there is a condition", _conditioned),
    Unused(
        "objective.discriminator.groups", ("objective.discriminator.norm",), "norm is group", _is("objective.discriminator.norm", "group")
    ),
    Unused(
        "training.ema_warmup", ("training.ema",), "there is an average, such as ema: 0.999", lambda recipe: recipe.training.ema is not None
    ),
    Unused("objective.gamma", ("objective.weighting",), "weighting is min_snr or soft_min_snr", _is("objective.weighting", *SNR)),
    Unused("objective.schedule", ("objective.prediction",), "prediction is eps, x0 or v", _is("objective.prediction", "eps", "x0", "v")),
    *(Unused(f"objective.{name}", ("objective.prediction",), "prediction is edm", _is("objective.prediction", "edm")) for name in EDM),
    Unused(
        "model.embedding_channels",
        ("objective.kind",),
        "kind is flow or diffusion, whose networks have an embedding",
        _is("objective.kind", "flow", "diffusion"),
    ),
    Unused("training.lr_batch", ("training.lr_scaling",), "lr_scaling is linear or sqrt", _is("training.lr_scaling", "linear", "sqrt")),
    Unused("optimizer.final_share", ("optimizer.schedule",), "schedule is cosine or linear", _is("optimizer.schedule", "cosine", "linear")),
    Unused("optimizer.no_decay", ("optimizer.weight_decay",), "weight_decay is above 0", lambda recipe: recipe.optimizer.weight_decay > 0),
    Unused(
        "optimizer.nesterov",
        ("optimizer.momentum",),
        "momentum is above 0",
        lambda recipe: isinstance(recipe.optimizer, Sgd) and recipe.optimizer.momentum > 0,
    ),
)


def _at(recipe: Recipe, path: str) -> Any:
    """The value at a dotted path, through sections only; None where the chosen variant has no such key."""
    value: Any = recipe
    for name in path.split("."):
        value = getattr(value, name, None)
    return value
