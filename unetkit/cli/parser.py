"""What all commands share: how one is declared, its common options, and where its answer goes."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from unetkit import files
from unetkit.errors import LimitError, UserError

Command = Callable[[argparse.Namespace], int]
EXCEEDED, INTERRUPTED = LimitError.status, 130
Commands = Any  # what argparse's add_subparsers returns; its class is private


class _Formatter(argparse.RawTextHelpFormatter):
    """Keeps an example in a line of its own, and the longest command beside its help."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        self._action_max_length = 15  # argparse forgets that commands are indented by two more when it measures them


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors name the nearest command or option."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(formatter_class=_Formatter, allow_abbrev=False, **arguments)

    def error(self, message: str) -> NoReturn:
        super().error(message + self._suggestion(message))

    def _suggestion(self, message: str) -> str:
        if choice := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            came, known = choice[1], re.findall(r"[\w-]+", choice[2])
        elif option := re.search(r"unrecognized arguments:.*?(--[\w-]+)", message):
            came, known = option[1], re.findall(r"--[\w-]+", self.format_help())
        else:
            return ""
        from unetkit.recipe.problems import nearest

        close = nearest(came, known)
        return f"; did you mean {close}?" if close else ""


def add_command(commands: Commands, name: str, run: Command, help: str, example: str) -> Parser:
    """Declares a command.

    Args:
        commands: what `register` was given, or what `add_group` returned.
        name: the word on the command line.
        run: takes the parsed arguments and returns the exit status; it imports its room inside.
        help: what the command does, in one line.
        example: a complete command line, shown in every help.
    """
    parser: Parser = commands.add_parser(name, help=f"{help}\n  {example}", description=help, epilog=f"example:\n  {example}")
    parser.set_defaults(command=run, parser=parser)
    return parser


def add_group(commands: Commands, name: str, help: str, example: str) -> Commands:
    """Declares a group of commands, as `recipe` with `check` and `show`; returns where `add_command` adds them."""
    parser: Parser = commands.add_parser(name, help=f"{help}\n  {example}", description=help)
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True)


def add_recipe(parser: argparse.ArgumentParser) -> None:
    """`RECIPE` and `--set`, which every command on a recipe takes; `read_recipe` reads what they say."""
    parser.add_argument("recipe", metavar="RECIPE", help="the recipe, a YAML file")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], dest="overrides", help="change one key, as optimizer.learning_rate=1e-4"
    )


def read_recipe(args: argparse.Namespace) -> Any:
    """The checked `Recipe` that the arguments of `add_recipe` name."""
    from unetkit import recipe
    from unetkit.recipe.problems import Place

    read = recipe.read(Path(args.recipe), args.overrides)
    if read.tpu.chip is not None:
        from unetkit.tpu.chips import chip

        try:
            chip(read.tpu.chip)  # by every command, so that a misspelt one is not found out on the day it is wanted
        except UserError as error:
            setting = next((one for one in reversed(args.overrides) if one.partition("=")[0].strip() in ("tpu.chip", "tpu")), None)
            place = Place(args.recipe) if setting is None else Place(f"--set {setting}")
            problem = recipe.Problem(place, "tpu.chip", str(error).removeprefix("chip "))
            raise recipe.RecipeError([problem]) from error
    return read


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json FILE`."""
    parser.add_argument("--json", metavar="FILE", type=in_a_folder, help="also write the answer as JSON; - for standard output, alone")


def numbers(wanted: str, bounds: str) -> Callable[[str], list[int]]:
    """The type of an option that takes whole numbers of 1 or more, as `96,128`; its errors begin with `wanted` or `bounds`."""

    def read(text: str) -> list[int]:
        try:
            found = [int(part) for part in text.split(",")]
        except ValueError:
            raise argparse.ArgumentTypeError(f"{wanted}; got {text!r}") from None
        if any(number < 1 for number in found):
            raise argparse.ArgumentTypeError(f"{bounds}; got {text!r}")
        return found

    return read


def count(text: str) -> int:
    """The type of an option that takes one whole number of 1 or more."""
    number = int(text) if text.strip().isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of 1 or more; got {text!r}")
    return number


def in_a_folder(name: str) -> str:
    """The name of a file that can be written, or -: known before the work, not after it."""
    if name != "-" and not Path(name).parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {Path(name).parent}")
    if Path(name).is_dir():
        raise argparse.ArgumentTypeError(f"{name} is a folder; name a file")
    return name


def add_allow_code(parser: argparse.ArgumentParser) -> None:
    """`--allow-code`."""
    parser.add_argument("--allow-code", action="store_true", help="import the classes that the run folder names; only for one you trust")


def answer(target: str | None, text: str, data: Any) -> None:
    """Prints `text`, and writes `data` as JSON to `target`, the argument of `--json`; with `-` only the JSON is printed."""
    content = json.dumps(data, indent=2, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(content)
        return
    if target is not None:
        files.write(Path(target), content)
    print(text)


def import_from_here() -> None:
    """Lets a recipe name classes in modules of the current folder, as `python -m` would. Last, so that none hides another."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
