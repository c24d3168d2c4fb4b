"""`unetkit COMMAND ...`: puts the groups of commands together, runs one, and turns its errors into exit statuses.

0 done; 1 the work failed; 2 bad input; 3 a limit was exceeded or it does not fit; 130 and 143 stopped by a signal, state saved.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from unetkit import __version__
from unetkit.cli import bench, data, doctor, recipe, run, runs, tpu, tune
from unetkit.cli.parser import INTERRUPTED, Parser
from unetkit.errors import UnetkitError

GROUPS = (run, runs, recipe, data, tpu, tune, bench, doctor)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command (`argv` without the program's name; None: the process's own) and returns its exit status."""
    try:
        args = _parse(argv)
    except SystemExit as end:  # argparse: 0 after --help and --version, 2 after bad arguments
        return int(end.code or 0)
    try:
        status: int = args.command(args)
        sys.stdout.flush()
        return status
    except UnetkitError as error:
        return _fail(str(error), error.status)
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains when it flushes at its end
        return 1
    except MemoryError as error:
        return _fail(f"not enough memory here: {str(error) or 'an allocation failed'}. Smaller images, tiles or batches need less", 1)
    except OSError as error:
        return _fail(str(error), 1)


def make_parser() -> Parser:
    """The parser of all commands."""
    parser = Parser(prog="unetkit", description="U-Nets that make images, from one YAML recipe.")
    parser.add_argument("--version", action="version", version=f"unetkit {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for group in GROUPS:
        group.register(commands)
    return parser


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    args, unknown = make_parser().parse_known_args(argv)
    if unknown:
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return args


def _fail(message: str, status: int) -> int:
    sys.stdout.flush()
    print(f"unetkit: {message}", file=sys.stderr)
    return status
