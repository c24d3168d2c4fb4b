"""`unetkit inspect | explain-oom | analysis`: what the TPU compiler says, before a TPU is paid for."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from unetkit.cli.parser import (
    EXCEEDED,
    Commands,
    add_command,
    add_group,
    add_json,
    add_recipe,
    answer,
    import_from_here,
    in_a_folder,
    numbers,
    read_recipe,
)
from unetkit.errors import UserError

if TYPE_CHECKING:
    from unetkit.tpu.answer import Answer

_batches = numbers("expected global batches as 128 or 128,256", "a global batch is 1 or more")


def register(commands: Commands) -> None:
    parser = add_command(
        commands,
        "inspect",
        inspect,
        "memory, padding and op profile on a TPU, from its compiler",
        "unetkit inspect recipes/emoji.yaml --chip v2-8",
    )
    add_recipe(parser)
    parser.add_argument("--chip", metavar="NAME", help="accelerator, as v2-8 or v5e-16 (default: the recipe's tpu.chip)")
    parser.add_argument("--batch", metavar="N[,N...]", type=_batches, help="global batches (default: the recipe's)")
    parser.add_argument("--program", choices=("jax", "tensorflow"), help="whose training step (default: the recipe's tpu.program)")
    parser.add_argument("--memory-only", action="store_true", help="stop once memory is known: seconds instead of minutes, no times")
    parser.add_argument("--no-advice", action="store_true", help="do not try changes that may help (done for one batch at a time)")
    parser.add_argument("--html", metavar="FILE", type=in_a_folder, help="also write one page with curves and tables that can be sorted")
    parser.add_argument("--xprof", metavar="DIR", type=_folder, help="also write a profile that XProf opens")
    parser.add_argument(
        "--max-padding",
        metavar="X",
        type=_ratio,
        help="exit 3 above this ratio of padded to unpadded peak bytes, 1.0 = none (default: the recipe's tpu.max_padding)",
    )
    parser.add_argument(
        "--max-hbm", metavar="X", type=_share, help="exit 3 above this share of the usable HBM (default: the recipe's tpu.max_hbm)"
    )
    add_json(parser)

    parser = add_command(
        commands,
        "explain-oom",
        explain_oom,
        "read a TPU's out-of-memory text: which buffers, how much is padding",
        "unetkit explain-oom error.txt",
    )
    parser.add_argument("file", metavar="FILE", help="the text; - for standard input")
    add_json(parser)

    group = add_group(commands, "analysis", "where the compiler's answers come from", "unetkit analysis status")
    add_command(group, "setup", setup, "make an environment with the compiler beside this one", "unetkit analysis setup")
    status_parser = add_command(group, "status", status, "which compiler answers, and what is cached", "unetkit analysis status")
    add_json(status_parser)
    add_command(group, "clear", clear, "empty the cache of answers", "unetkit analysis clear")


def inspect(args: argparse.Namespace) -> int:
    """Asks, shows, writes what was asked for; 3 when a limit is exceeded or it does not fit."""
    recipe = read_recipe(args)
    import_from_here()
    from unetkit.tpu import inspection, limits, terminal

    if recipe.model.lowering == "auto":
        from unetkit.callbacks import resolve_lowering

        recipe = resolve_lowering(recipe, args.chip or recipe.tpu.chip, (args.batch or [None])[0])
    stage = "memory" if args.memory_only else "full"
    advise = not args.no_advice and len(args.batch or [0]) == 1
    found = inspection.ask_recipe(recipe, args.chip, args.batch, args.program, stage=stage, advise=advise)
    answers = [one.answer for one in found]
    plain = [a.to_dict() for a in answers]
    answer(args.json, terminal.text(answers), plain[0] if len(plain) == 1 else plain)
    if args.html:
        from unetkit import files
        from unetkit.tpu import html

        for shown in answers:
            files.write(_numbered(args.html, shown, len(answers)), html.page(shown))
    if args.xprof:
        from unetkit.tpu import xprof

        if any(one.record is None for one in found):
            raise UserError("--xprof shows the compiler's program, and the compiler is not here: unetkit analysis setup")

        for one in found:
            xprof.write(one, Path(args.xprof))
    max_padding = recipe.tpu.max_padding if args.max_padding is None else args.max_padding
    max_hbm = recipe.tpu.max_hbm if args.max_hbm is None else args.max_hbm
    broken = [line for a in answers for line in limits.broken(a, max_padding, max_hbm)]
    for line in broken:
        print(f"unetkit: {line}", file=sys.stderr)
    return EXCEEDED if broken else 0


def explain_oom(args: argparse.Namespace) -> int:
    """Reads the text and shows what it says."""
    from unetkit.tpu import oom, terminal

    if args.file != "-" and not Path(args.file).is_file():
        raise UserError(f"{args.file}: no such file; give the file that holds the out-of-memory text, or - to read standard input")
    text = sys.stdin.read() if args.file == "-" else Path(args.file).read_text(errors="replace")
    said = oom.explain(text)
    answer(args.json, terminal.oom_text(said), said.to_dict())
    return 0


def setup(args: argparse.Namespace) -> int:
    """Makes the second environment."""
    from unetkit.tpu import environment

    folder = environment.setup(print)
    print(f"ready: {folder}")
    return 0


def status(args: argparse.Namespace) -> int:
    """Says which Python has the compiler and how much is cached."""
    from unetkit.tpu import environment
    from unetkit.tpu.cache import Cache

    cache = Cache()
    usage = cache.usage()
    found: dict = {"cache": str(cache.root), "entries": usage.entries, "size_bytes": usage.size_bytes, "limit_bytes": usage.limit_bytes}
    try:
        interpreter = environment.find_interpreter()
    except environment.CompilerMissing as missing:
        found["compiler"] = None
        lines = [f"compiler    none: {missing}"]
    else:
        found["compiler"] = {"python": interpreter.python, "versions": interpreter.versions, "tested": interpreter.tested}
        tested = "tested" if interpreter.tested else "not the tested versions"
        lines = [f"compiler    {interpreter.compiler} ({tested}), {interpreter.origin}", f"python      {interpreter.python}"]
    lines.append(
        f"cache       {usage.entries} answers, {usage.size_bytes / 2**20:.1f} of {usage.limit_bytes / 2**20:.0f} MiB, {cache.root}"
    )
    answer(args.json, "\n".join(lines), found)
    return 0


def clear(args: argparse.Namespace) -> int:
    """Empties the cache."""
    from unetkit.tpu.cache import Cache

    before = Cache().clear()
    print(f"dropped {before.entries} answers, {before.size_bytes / 2**20:.1f} MiB")
    return 0


def _numbered(name: str, one: Answer, count: int) -> Path:
    """The file of one answer: with several, the batch is put before the suffix, as `page-128.html`."""
    path = Path(name)
    return path if count == 1 else path.with_stem(f"{path.stem}-{one.global_batch}")


def _folder(name: str) -> str:
    """The name of a folder that is there or can be made: known before the work, not after it."""
    path = Path(name)
    if not next(p for p in (path, *path.absolute().parents) if p.exists()).is_dir():
        raise argparse.ArgumentTypeError(f"{name} cannot be a folder: there is a file of that name, or above it")
    return name


def _ratio(text: str) -> float:
    if not (number := _number(text)) >= 1:
        raise argparse.ArgumentTypeError(f"a ratio of padded to unpadded bytes is 1.0 or more; got {text}")
    return number


def _share(text: str) -> float:
    if not 0 < (number := _number(text)) <= 1:
        raise argparse.ArgumentTypeError(f"a share of the usable HBM is above 0 and at most 1, as 0.9 for 90 %; got {text}")
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number; got {text!r}") from None
