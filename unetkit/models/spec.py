"""What one level of a U-Net is, before any layer exists."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from unetkit.blocks import checks
from unetkit.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class LevelSpec:
    """One resolution of the U-Net; None takes the model's own value.

    Args:
        channels: channels of this level's convolutions.
        blocks: blocks on each side of this level.
        norm: none, batch, group, instance or layer.
        dropout: rate inside this level's blocks (None: the model's at the bottom, 0 elsewhere).
        attention: self-attention after this level's blocks, on both sides.
    """

    channels: int
    blocks: int | None = None
    norm: str | None = None
    dropout: float | None = None
    attention: bool = False


def read_levels(levels: Iterable[Any]) -> tuple[LevelSpec, ...]:
    """Levels as the user wrote them, outermost first: a number of channels, a mapping, or any dataclass with `LevelSpec`'s fields.

    Raises:
        UserError: no level at all, or an entry that is none of these.
    """
    known = [field.name for field in dataclasses.fields(LevelSpec)]
    specs = []
    for number, level in enumerate(levels):
        where = f"levels[{number}]"
        if dataclasses.is_dataclass(level) and not isinstance(level, type):
            level = dataclasses.asdict(level)
        if not isinstance(level, Mapping):
            level = {"channels": level}
        for name in level:
            if name not in known:
                raise UserError(f"{where}: unknown key {name!r}.{checks.did_you_mean(name, known)} Known: {', '.join(known)}.")
        if "channels" not in level:
            raise UserError(f"{where}: channels is missing.")
        specs.append(LevelSpec(**dict(level) | {"channels": checks.count(where, "channels", level["channels"])}))
    if not specs:
        raise UserError("levels: a U-Net needs at least one level, received none.")
    return tuple(specs)
