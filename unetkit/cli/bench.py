"""`unetkit bench shapes`."""

from __future__ import annotations

import argparse
from pathlib import Path

from unetkit.cli.parser import Commands, add_command, add_group, add_json, answer, count, in_a_folder, numbers

_numbers = numbers("expected numbers as 96,128,160", "expected numbers of 1 or more")
LENGTHS = {1: "8000,9200,10400,11600,12800,14000,15200,16000", 2: "96,120,144,168,192,216,240,256"}


def register(commands: Commands) -> None:
    group = add_group(commands, "bench", "measure this machine", "unetkit bench shapes")
    parser = add_command(
        group, "shapes", shapes, "what each new length costs: first call against repeat", "unetkit bench shapes --plot shapes.png"
    )
    parser.add_argument("--rank", type=int, choices=(1, 2), default=1, help="1: signals, 2: square images (default: 1)")
    parser.add_argument("--lengths", metavar="N,N...", type=_numbers, help="lengths, or sides of images, in the order of the calls")
    parser.add_argument("--channels", metavar="N,N...", type=_numbers, default=[32, 64, 128], help="per level (default: 32,64,128)")
    parser.add_argument("--tile", metavar="N", type=count, help="the one shape of Tiled (default: 4096 samples, 128 pixels)")
    parser.add_argument("--repeats", metavar="N", type=count, default=3, help="calls after the first; the fastest counts (default: 3)")
    parser.add_argument("--plot", metavar="FILE", type=in_a_folder, help="also draw a PNG")
    add_json(parser)


def shapes(args: argparse.Namespace) -> int:
    """Measures, prints, writes what was asked for."""
    from unetkit.bench.shapes import findings, measure, plot, table

    tile = args.tile or (4096 if args.rank == 1 else 128)
    lengths = args.lengths or _numbers(LENGTHS[args.rank])
    answers = measure(rank=args.rank, channels=args.channels, lengths=lengths, repeats=args.repeats, tile=tile)
    answer(args.json, table(answers), {"tile": tile, "rank": args.rank, "engines": answers, "findings": findings(answers)})
    if args.plot:
        plot(answers, Path(args.plot))
    return 0
