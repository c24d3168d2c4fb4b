"""What both lowering children share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unetkit.errors import UnetkitError, UserError
from unetkit.train.step import is_seed

Lower = Callable[[dict[str, Any], int, Path], dict[str, Any]]
"""(what is asked for, number of replicas, file for the program) -> its entry of `lowered.json`"""


def serve(folder: str, kinds: Mapping[str, Lower]) -> None:
    """Reads `request.json`, writes the programs and, last, `lowered.json`: entries, or an error that the user can mend."""
    work = Path(folder)
    request = json.loads((work / "request.json").read_text())
    sys.path += [p for p in request["paths"] if p not in sys.path]
    try:
        if request["kind"] not in kinds:
            raise UserError("With TensorFlow only a recipe's step can be lowered; for a Keras model use the JAX program.")
        lower = kinds[request["kind"]]
        programs = [lower(asked, request["replicas"], work / f"program{n}") for n, asked in enumerate(request["asked"])]
        found: dict[str, Any] = {"programs": programs}
    except UnetkitError as error:
        found = {"error": str(error)}
    (work / "lowered.json").write_text(json.dumps(found))


def packing_text(packing: Sequence[Sequence[int]]) -> str:
    """`2x4 1x2` for blocks of two levels, `none` where nothing is packed."""
    return " ".join("x".join(map(str, block)) for block in packing) or "none"


def owners(variables: Sequence[Any], weights: Sequence[Any]) -> list[str | None]:
    """For each Keras variable the path of the weight it belongs to: its own, or for an optimizer's slot that weight's."""
    by_slot = {w.path.replace("/", "_"): w.path for w in weights}
    paths: list[str | None] = []
    for variable in variables:
        last = variable.path.rsplit("/", 1)[-1]
        owner = next((path for name, path in by_slot.items() if last.startswith(name + "_")), None)
        paths.append(owner or (None if is_seed(variable) else variable.path))
    return paths
