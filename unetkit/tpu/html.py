"""An answer as one self-contained HTML page: memory curve, buffers, categories, roofline, operations, levels.

The page loads nothing from anywhere: its style, its script and its data lie inside it. Every figure on it says where it
comes from, since none of them was measured.
"""

from __future__ import annotations

import html
import json
import re
from importlib import resources

from unetkit.tpu.answer import Answer
from unetkit.tpu.chips import Chip, chip

_ORIGIN = {
    "compiled": "Estimated by the TPU compiler ({compiler}), not measured on a TPU.",
    "compiler_oom": "From the TPU compiler ({compiler}), which refused the program for its size; not measured on a TPU.",
    "compiler_crash": "The TPU compiler ({compiler}) failed on this program; what is shown was not measured on a TPU.",
    "interpolated": "Interpolated between two batches that the TPU compiler ({compiler}) estimated; not measured on a TPU.",
    "model": "Estimated by unetkit's arithmetic model ({model}) from layer shapes; no compiler was asked and no TPU measured.",
    "executable": "Memory from the executable on the attached TPU; times estimated by the TPU compiler ({compiler}), not measured.",
}


def origin(answer: Answer) -> str:
    """One sentence that says where the figures of an answer come from."""
    compiler = ", ".join(f"{name} {answer.versions[name]}" for name in ("libtpu", "jax", "unetkit") if name in answer.versions)
    model = f"unetkit {answer.versions.get('unetkit', 'of unknown version')}"
    return _ORIGIN[answer.source].format(compiler=compiler or "version unknown", model=model)


def page(answer: Answer) -> str:
    """The whole page as text."""
    data = {"answer": answer.to_dict(), "chip": _roof(chip(answer.chip)), "estimate": origin(answer)}
    # No "<" may stand inside a script element, or a layer's name could end it.
    plain = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    room = resources.files("unetkit.tpu")
    inserted = {
        "TITLE": html.escape(f"{answer.name} on {answer.chip}: unetkit inspect"),
        "CSS": room.joinpath("page.css").read_text(encoding="utf-8"),
        "JS": room.joinpath("page.js").read_text(encoding="utf-8"),
        "DATA": plain,
    }
    return re.sub("__(TITLE|CSS|JS|DATA)__", lambda mark: inserted[mark[1]], room.joinpath("page.html").read_text(encoding="utf-8"))


def _roof(accelerator: Chip) -> dict[str, float]:
    """The two slopes of the roofline, of one replica."""
    return {"peak_flops": accelerator.peak_flops, "hbm_bytes_per_second": accelerator.hbm_bytes_per_second}
