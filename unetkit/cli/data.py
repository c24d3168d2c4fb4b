"""`unetkit data check`."""

from __future__ import annotations

import argparse

from unetkit.cli.parser import Commands, add_command, add_group, add_json, add_recipe, answer, read_recipe


def register(commands: Commands) -> None:
    group = add_group(commands, "data", "look at the images of a recipe", "unetkit data check recipes/emoji.yaml")
    parser = add_command(group, "check", check, "read every image of a recipe and report", "unetkit data check recipes/emoji.yaml")
    add_recipe(parser)
    add_json(parser)


def check(args: argparse.Namespace) -> int:
    """Reads every file and prints the report; status 2 when the data cannot be trained on as the recipe asks."""
    recipe = read_recipe(args)
    from unetkit.data.check import check

    report = check(recipe.data)
    answer(args.json, "\n".join(report.lines()), report.to_dict())
    return 0 if report.ok else 2
