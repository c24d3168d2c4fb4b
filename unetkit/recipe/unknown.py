"""Why a key is unknown where it stands, and which key was meant."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

from unetkit.recipe.kinds import Section, Variants, every_key
from unetkit.recipe.problems import join, nearest

RENAMED = {
    "alpha": ("model.negative_slope", "model.leaky_relu_alpha"),
    "batch_norm": ("model.batchnorm", "model.norm"),
    "batch_size": ("training.batch",),
    "checkpoint_every": ("checkpoint.every_images",),
    "decay": ("optimizer.weight_decay",),
    "ema_decay": ("training.ema",),
    "exclude": ("optimizer.no_decay",),
    "exclude_from_weight_decay": ("optimizer.no_decay",),
    "global_batch": ("training.batch",),
    "global_batch_size": ("training.batch",),
    "global_clipnorm": ("optimizer.clip_norm",),
    "gradient_accumulation": ("training.accumulate",),
    "gradient_accumulation_steps": ("training.accumulate",),
    "image_size": ("data.size",),
    "jit_compile": ("hardware.jit",),
    "log_every": ("logging.every_images",),
    "lr": ("optimizer.learning_rate",),
    "mixed_precision": ("training.precision",),
    "normalization": ("model.norm", "model.batchnorm"),
    "sample_every": ("logging.samples.every_images",),
    "save_every": ("checkpoint.every_images",),
    "start_channels": ("model.start_ch", "model.levels"),
    "steps": ("training.images",),
    "steps_per_execution": ("training.steps_per_call",),
    "strategy": ("hardware.device",),
    "total_steps": ("training.images",),
    "warmup_steps": ("optimizer.warmup_images",),
}
"""What a key was called in an older recipe, or is called elsewhere: its paths here, in the order of likelihood."""


class Explanation(NamedTuple):
    """What to tell about an unknown key, and the key of the same section that it stood for, if any."""

    message: str
    meant: str | None


def explain(name: str, section: Section, path: str, variants: Variants | None) -> Explanation:
    """Explains the unknown key `name` of the section at `path`; `variants` are the section's alternatives, if it has any."""
    here = f"in `{path}`" if path else "at the top"
    known = f"Known {here}: {', '.join(section.keys)}."
    normal = name.strip().lower().replace("-", "_").replace(" ", "_")
    if normal in section.keys:  # a hyphen, a space or a capital
        return Explanation(f"unknown key; it is written `{normal}`. {known}", normal)
    if normal in RENAMED:
        news = RENAMED[normal]
        new = next((new for new in news if new.rpartition(".")[0] == path and new.rpartition(".")[2] in section.keys), None)
        unit = ", and counts images, not steps" if "steps" in normal and news[0].endswith("images") else ""
        message = f"renamed: it is called `{new or news[0]}` here{unit}. {known}"
        return Explanation(message, new.rpartition(".")[2] if new else None)
    if variants and (others := [tag for tag, other in variants.sections.items() if normal in other.keys]):
        mine = next(tag for tag, other in variants.sections.items() if other is section)
        return Explanation(f"it is not a key of {mine}, but of {', '.join(others)} (`{join(path, variants.by)}`). {known}", None)
    if "." in normal and normal in _leaf_paths():
        return Explanation(f"unknown key; write the sections one inside the other: `{_nested(normal)}`. {known}", None)
    if elsewhere := _places().get(normal):
        return Explanation(f"misplaced: it does not belong {here} but here: {', '.join(elsewhere)}. {known}", None)
    if close := nearest(normal, section.keys):
        return Explanation(f"unknown key; did you mean `{close}`? {known}", close)
    if far := nearest(normal, _places()):
        return Explanation(f"unknown key; did you mean {' or '.join(_places()[far])}? {known}", None)
    return Explanation(f"unknown key. {known}", None)


def fitting_variant(variants: Variants, names: Iterable[str]) -> str | None:
    """The only variant that knows all of `names`, or the only one of those that needs no others; None where that leaves it open."""
    names = set(names)
    fit = [tag for tag, section in variants.sections.items() if names <= set(section.keys)]
    whole = [tag for tag in fit if all(key.name in names for key in variants.sections[tag].keys.values() if key.required)]
    return next((few[0] for few in (fit, whole) if len(few) == 1), None)


def any_of(variants: Variants) -> Section:
    """A section with the keys of all variants."""
    keys = {name: key for section in variants.sections.values() for name, key in section.keys.items()}
    return Section(object, keys)


@functools.cache
def _places() -> dict[str, tuple[str, ...]]:
    """Every key's name with the paths where it may stand: `momentum` with "`optimizer.momentum` (sgd, rmsprop)"."""
    tags: dict[str, dict[str, set[str]]] = {}  # of a section, and of a key in it
    for item in every_key():
        tags.setdefault(item.section, {}).setdefault(item.key.name, set()).add(item.variant or "")
    places: dict[str, tuple[str, ...]] = {}
    for path, names in tags.items():
        every = set().union(*names.values())
        for name, having in names.items():
            only = "" if having == every else f" ({', '.join(sorted(having))})"
            places[name] = (*places.get(name, ()), f"`{join(path, name)}`{only}")
    return places


@functools.cache
def _leaf_paths() -> frozenset[str]:
    return frozenset(item.path for item in every_key())


def _nested(path: str) -> str:
    head, _, rest = path.partition(".")
    return f"{head}: {{{_nested(rest)}}}" if rest else f"{head}: ..."
