"""`unetkit runs list | show | compare`: run folders as tables and as a picture of curves."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unetkit.cli.parser import Commands, add_command, add_group, add_json, answer, in_a_folder
from unetkit.errors import UserError

if TYPE_CHECKING:
    from unetkit.runs.summary import Summary

GONE = "-"


def register(commands: Commands) -> None:
    group = add_group(commands, "runs", "look at run folders: list, show, compare", "unetkit runs list")

    parser = add_command(group, "list", list_runs, "the runs in a folder, one a line", "unetkit runs list")
    parser.add_argument("folder", metavar="DIR", nargs="?", default="runs", help="where the run folders are (default: runs)")
    add_json(parser)

    parser = add_command(group, "show", show, "what one run has done", "unetkit runs show runs/emoji")
    parser.add_argument("run", metavar="RUN", help="the run folder")
    add_json(parser)

    parser = add_command(
        group,
        "compare",
        compare,
        "several runs beside each other, as a table and as curves",
        "unetkit runs compare runs/a runs/b --out ab.png",
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run folders, two at least")
    parser.add_argument("--out", metavar="FILE", type=in_a_folder, help="also draw their curves as a PNG")
    add_json(parser)


def list_runs(args: argparse.Namespace) -> int:
    """A table of all runs in a folder."""
    from unetkit.runs.summary import found_below, summarize

    found = [summarize(path) for path in found_below(args.folder)]
    if not found:
        raise UserError(f"no run folders in {args.folder}. `unetkit train RECIPE` makes one; another place: unetkit runs list DIR")
    columns = {
        "run": lambda one: Path(one.path).name,
        "state": _state,
        "images": lambda one: _count(one.images),
        "loss": lambda one: _figure(one.last.get("loss")),
        "best": _best,
        "images/s": lambda one: _figure(one.last.get("images_per_second")),
        "on": _on,
        "updated": lambda one: _ago(one.updated),
    }
    answer(args.json, _table(columns, [[column(one) for column in columns.values()] for one in found]), [one.to_dict() for one in found])
    return 0


def show(args: argparse.Namespace) -> int:
    """One run: where it stands, its validations, its checkpoints and its starts."""
    from unetkit import runs
    from unetkit.runs.names import HISTORY
    from unetkit.runs.summary import saved, summarize

    one = summarize(args.run)
    run = runs.read(args.run)
    if one.state.startswith("damaged"):
        answer(args.json, f"{one.path}  {one.state}", {"summary": one.to_dict()})
        return 1
    kept = saved(run)
    starts = runs.read_stats(run.path / HISTORY)
    validations = [line for line in run.stats() if any(key.startswith("val_") for key in line)]
    facts = [
        ("run", one.path),
        ("state", f"{_state(one)}, {_count(one.images)} images, step {_count(one.step)}"),
        ("best", f"{_best(one)} at {_count(one.best_images)} images" if one.best is not None else "not validated yet"),
        ("last", ", ".join(f"{name} {_figure(value)}" for name, value in one.last.items()) or GONE),
        ("on", _on(one)),
        ("updated", _ago(one.updated)),
    ]
    head = "\n".join(f"{name:8} {value}" for name, value in facts)
    names = list(dict.fromkeys(key for line in validations for key in line if key != "step"))
    tables = [
        _table(names, [[_count(line["images"]), *(_figure(line.get(name)) for name in names[1:])] for line in validations])
        if names
        else "",
        _table(
            ["checkpoint", "images", "metrics", "MB"],
            [
                [
                    str(c["step"]),
                    _count(c["images"]),
                    ", ".join(f"{n} {_figure(v)}" for n, v in c["metrics"].items()),
                    f"{c['bytes'] / 1e6:.1f}",
                ]
                for c in kept
            ],
        ),
        _table(["started", "event", "at step", "changed"], [_start(line) for line in starts]),
    ]
    data = {"summary": one.to_dict(), "validations": validations, "checkpoints": kept, "starts": starts}
    answer(args.json, "\n\n".join([head, *filter(None, tables)]), data)
    return 0


def compare(args: argparse.Namespace) -> int:
    """The figures of several runs, the keys in which their recipes differ, and their curves."""
    from unetkit import pictures, runs
    from unetkit.runs.summary import differing, summarize

    if len(args.runs) < 2:
        raise UserError(f"one run cannot be compared; name two at least, or look at it: unetkit runs show {args.runs[0]}")
    found = [summarize(path) for path in args.runs]
    damaged = next((one for one in found if one.state.startswith("damaged")), None)
    if damaged is not None:
        raise UserError(f"{damaged.path} is {damaged.state}")
    opened = [runs.read(path) for path in args.runs]
    titles = _titles(args.runs)
    rows: dict[str, list[str]] = {
        "state": [_state(one) for one in found],
        "images": [_count(one.images) for one in found],
        "best": [_best(one) for one in found],
        "on": [_on(one) for one in found],
    }
    for name in dict.fromkeys(name for one in found for name in one.last):
        rows[name] = [_figure(one.last.get(name)) for one in found]
    keys = differing([run.recipe for run in opened])
    rows |= {key: [str(value) for value in values] for key, values in keys.items()}
    text = _table(["", *titles], [[name, *values] for name, values in rows.items()])
    if args.out:
        pictures.compare_curves({title: run.stats() for title, run in zip(titles, opened, strict=True)}, args.out)
        text += f"\ncurves  {args.out}"
    answer(args.json, text, {"runs": [one.to_dict() for one in found], "recipes_differ": keys})
    return 0


def _titles(paths: list[str]) -> list[str]:
    """The folders' names, or their paths where two have the same name."""
    short = [Path(path).name for path in paths]
    return short if len(set(short)) == len(short) else list(paths)


def _table(columns: Any, rows: list[list[str]]) -> str:
    from rich import box
    from rich.table import Table

    from unetkit.tables import as_text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(str(name), overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*row)
    return "\n".join(line for line in as_text(table, width=140).splitlines() if line.strip())


def _state(one: Summary) -> str:
    if one.state != "unfinished" or not one.length or one.images is None:
        return one.state
    return f"unfinished, {min(one.images / one.length, 1):.0%}"


def _best(one: Summary) -> str:
    return GONE if one.best is None else f"{one.metric} {_figure(one.best)}"


def _on(one: Summary) -> str:
    if one.device is None:
        return one.backend or GONE
    return f"{one.backend}, {f'{one.replicas} x ' if (one.replicas or 1) > 1 else ''}{one.device}"


def _start(line: dict[str, Any]) -> list[str]:
    changed = {**(line.get("recipe") or {}), **(line.get("environment") or {})}
    return [str(line.get("time", GONE)), str(line.get("event", GONE)), str(line.get("step", GONE)), ", ".join(changed) or GONE]


def _figure(value: float | None) -> str:
    return GONE if value is None else f"{value:.4g}"


def _count(value: int | None) -> str:
    return GONE if value is None else f"{value:,}"


def _ago(moment: float | None) -> str:
    if moment is None:
        return GONE
    seconds = max(time.time() - moment, 0.0)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
