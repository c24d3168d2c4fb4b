"""Which layer of the model an instruction belongs to, read from the name that JAX or TensorFlow left on it.

JAX: `jit(train_step)/transpose(jvp(down_0))/block0/conv1/conv_general_dilated`; TensorFlow:
`gradient_tape/unet/down_0/block0/conv1/Conv2DBackpropFilter`. Both: `down_0/block0/conv1`, backward.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from unetkit.tpu.answer import Pass

_WRAPPER = re.compile(r"^(?:jvp|transpose|vmap|remat|checkpoint|rematted_computation|custom_jvp|custom_vjp)\((.*)\)$")
_CONTROL = frozenset(
    {
        *("while", "body", "cond", "branch", "closed_call", "custom_jvp_call", "custom_vjp_call"),
        *("checkpoint", "remat", "remat2", "rematted_computation"),
    }
)
_LEVEL = re.compile(r"^(?:down|up|downsample|upsample|join)_(\d+)$")

OPTIMIZER = "optimizer"


@dataclass(frozen=True)
class Place:
    """A layer's path, None for what belongs to none, and the part of the step it is in."""

    layer: str | None
    in_pass: Pass

    @property
    def level(self) -> str:
        """`level 0`, `bottom`, `head`; another model's first name scope; `optimizer`, `other`."""
        if self.in_pass == "update":
            return OPTIMIZER
        if not self.layer:
            return "other"
        first = self.layer.split("/")[0]
        match = _LEVEL.match(first)
        return f"level {match[1]}" if match else first


NOWHERE = Place(None, "other")


@functools.lru_cache(maxsize=65536)
def place_of(op_name: str | None, layers: frozenset[str] | None = None) -> Place:
    """Layer and pass of an instruction.

    Args:
        op_name: the instruction's name as the framework gave it.
        layers: names of the model's layers, which tell TensorFlow's scopes from its own; None for JAX.
    """
    if not op_name:
        return NOWHERE
    parts = op_name.split("/")
    if parts[0].startswith("jit("):
        return _jax(parts[1:], backward="transpose(" in op_name, forward="jvp(" in op_name)
    return _tensorflow(parts, layers) if layers is not None else NOWHERE


def _jax(parts: list[str], backward: bool, forward: bool) -> Place:
    scopes: list[str] = []
    whole = True
    for part in parts:
        if re.match(r"^p?jit\(", part):  # a function of the framework inside the layer
            whole = False
            break
        while match := _WRAPPER.match(part):
            part = match[1]
        if part and part not in _CONTROL:
            scopes.append(part)
    if whole and scopes and not _WRAPPER.match(parts[-1]):
        scopes.pop()  # the primitive
    layer = "/".join(scopes) or None
    if backward or forward:
        return Place(layer, "backward" if backward else "forward")
    return Place(layer, "update" if layer else "other")


def _tensorflow(parts: list[str], layers: frozenset[str]) -> Place:
    backward = "gradient_tape" in parts
    scopes: list[str] = []
    for part in parts:
        # A scope that is entered again gets a number: `down_0_1` is the layer `down_0`.
        name = part if part in layers else re.sub(r"_\d+$", "", part)
        if name in layers:
            scopes.append(name)
        elif scopes:
            break
    if scopes:
        return Place("/".join(scopes), "backward" if backward else "forward")
    if backward:
        return Place(None, "backward")
    return Place(parts[0], "update") if len(parts) > 1 else NOWHERE
