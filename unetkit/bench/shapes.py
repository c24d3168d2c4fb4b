"""`unetkit bench shapes`: what a length never seen before costs, against its repeats, on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unetkit import backend, files, shapes
from unetkit.errors import UserError, WorkError

SLOW = 2.0
"""A first call that takes this many times as long as a repeat is called slow."""


def measure(*, rank: int, channels: Sequence[int], lengths: Sequence[int], repeats: int, tile: int) -> list[dict[str, Any]]:
    """Asks each installed engine in a process of its own, one after the other: see `bench.measure.answer`.

    Raises:
        UserError: lengths or a tile that the network cannot halve, or no engine is installed.
        WorkError: a process failed.
    """
    for what, size in (("lengths", n) for n in lengths):
        shapes.check_halvable(size, len(channels) - 1, what)
    shapes.check_halvable(tile, len(channels) - 1, "tile")
    if len(set(lengths)) < 3:
        raise UserError(f"lengths: {list(lengths)} are too few: three different ones tell a pattern from a start-up")
    question = {"rank": rank, "channels": list(channels), "lengths": list(lengths), "repeats": repeats, "tile": tile}
    engines = [name for name, module in backend.MODULES.items() if importlib.util.find_spec(module)]
    if not engines:
        raise UserError(f"no engine is installed; {backend.EXTRAS['tensorflow']}")
    return [_ask(engine, question) for engine in engines]


def _ask(engine: str, question: dict[str, Any]) -> dict[str, Any]:
    code = f"from unetkit import backend; backend.select({engine!r}); from unetkit.bench import measure; measure.main()"
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(question), capture_output=True, text=True, env=environment)
    if done.returncode:
        raise WorkError(f"measuring with {engine} failed:\n{done.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def findings(answers: Sequence[dict[str, Any]]) -> list[str]:
    """What the figures say in words: which of the known causes this machine shows. The first length, a start-up, is left out."""
    ways = [way for one in answers for way in one["ways"].items()]
    ratios = {name: statistics.median(row["first_s"] / row["repeat_s"] for row in rows[1:]) for name, rows in ways}
    causes = {
        "eager": "an operation's first use of a shape (cuDNN autotuning on a GPU, primitives of oneDNN on a CPU)",
        "tf.function": "retracing: tf.function builds a new graph for each shape",
        "tf.function, relaxed": "a relaxed signature, which traces the graph once, leaves",
        "jax.jit": "XLA compilation: jit compiles a program for each shape",
    }
    said = [
        f"{'slow' if ratios[name] >= SLOW else 'not slow'}: {cause}: the first call takes {ratios[name]:.1f} times a repeat"
        for name, cause in causes.items()
        if name in ratios
    ]
    if all(ratios[name] < SLOW for name in causes if name in ratios):
        said.append("This machine does not show the effect at these sizes.")
    return said + [f"{name}: the first call takes {ratio:.1f} times a repeat" for name, ratio in ratios.items() if name.startswith("Tiled")]


def table(answers: Sequence[dict[str, Any]]) -> str:
    """First call and repeat per length, in milliseconds, and what all of them take together."""
    from rich.table import Table

    from unetkit.tables import as_text

    made = Table("length", title="first call / repeat, in milliseconds")
    columns = {name: rows for one in answers for name, rows in one["ways"].items()}
    for name in columns:
        made.add_column(name, justify="right")
    for number, row in enumerate(next(iter(columns.values()))):
        cells = ((1e3 * rows[number]["first_s"], 1e3 * rows[number]["repeat_s"]) for rows in columns.values())
        made.add_row(f"{row['length']:,}", *(f"{first:,.0f} / {repeat:,.0f}" for first, repeat in cells))
    made.add_section()
    made.add_row("all, first calls", *(f"{1e3 * sum(row['first_s'] for row in rows):,.0f}" for rows in columns.values()))
    devices = ", ".join(f"{one['engine']} on {one['device']}" for one in answers)
    return "\n".join([as_text(made, width=120), devices, *findings(answers)])


def plot(answers: Sequence[dict[str, Any]], path: Path) -> None:
    """First calls (lines) and repeats (dashes) over the length, as a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), dpi=100, layout="constrained")
    axes = figure.subplots()
    for number, (name, rows) in enumerate((name, rows) for one in answers for name, rows in one["ways"].items()):
        lengths = [row["length"] for row in rows]
        axes.semilogy(lengths, [row["first_s"] for row in rows], marker="o", color=f"C{number}", label=name)
        axes.semilogy(lengths, [row["repeat_s"] for row in rows], linestyle="--", color=f"C{number}")
    axes.set_xlabel("length, in the order of the calls where it grows")
    axes.set_ylabel("seconds (dashed: repeats)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    with files.replacing(path) as stream:
        figure.savefig(stream, format="png")
