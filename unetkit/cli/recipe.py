"""`unetkit recipe check | show | schema | new`."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from unetkit.cli.parser import Commands, add_command, add_group, add_json, add_recipe, answer, read_recipe

if TYPE_CHECKING:
    from unetkit.recipe import Recipe


def register(commands: Commands) -> None:
    group = add_group(commands, "recipe", "check, show or begin a recipe", "unetkit recipe check recipes/emoji.yaml")

    parser = add_command(group, "check", check, "tell everything that is wrong with a recipe", "unetkit recipe check recipes/emoji.yaml")
    add_recipe(parser)
    add_json(parser)

    parser = add_command(group, "show", show, "print a recipe with every default", "unetkit recipe show recipes/emoji.yaml --set seed=1")
    add_recipe(parser)
    add_json(parser)

    parser = add_command(
        group, "schema", schema, "print the JSON Schema of recipes, for editors", "unetkit recipe schema > recipe.schema.json"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table of keys instead, as in docs/recipe.md")

    parser = add_command(
        group, "new", new, "write a first recipe for two folders of images", "unetkit recipe new --pairs sketches photos --out my.yaml"
    )
    parser.add_argument("--pairs", nargs=2, metavar=("A", "B"), required=True, help="folder of inputs and folder of targets")
    parser.add_argument("--out", metavar="FILE", default="recipe.yaml", help="where to write it (default: recipe.yaml)")


def check(args: argparse.Namespace) -> int:
    """Prints what the recipe is, or all its problems."""
    from unetkit.recipe import RecipeError

    try:
        recipe = read_recipe(args)
    except RecipeError as error:
        if args.json:
            problems = [{"source": p.place.source, "line": p.place.line, "path": p.path, "message": p.message} for p in error.problems]
            answer(args.json, str(error), {"ok": False, "problems": problems})
            return error.status
        raise
    answer(args.json, f"{args.recipe}: ok: {_summary(recipe)}", {"ok": True, "problems": []})
    return 0


def show(args: argparse.Namespace) -> int:
    """Prints the recipe with every default written out."""
    from unetkit.recipe import to_dict, to_yaml

    recipe = read_recipe(args)
    answer(args.json, to_yaml(recipe).rstrip("\n"), to_dict(recipe))
    return 0


def schema(args: argparse.Namespace) -> int:
    """Prints the JSON Schema, or the table of keys."""
    from unetkit.recipe import json_schema, table

    print(table.markdown() if args.markdown else json.dumps(json_schema(), indent=2))
    return 0


def new(args: argparse.Namespace) -> int:
    """Looks at two folders of images and writes a recipe for them."""
    from pathlib import Path

    from unetkit import files
    from unetkit.cli.proposal import propose
    from unetkit.errors import UserError

    out = Path(args.out)
    if out.exists():
        raise UserError(f"{out} exists and is not overwritten; give another name with --out")
    if not out.parent.is_dir():
        raise UserError(f"--out {out}: there is no folder {out.parent}")
    proposal = propose(*args.pairs, name=out.stem)
    print(*proposal.notes, sep="\n")
    files.write(out, proposal.text)
    print(f"wrote {out}: {_summary(proposal.recipe)}\nnext: unetkit data check {out}, then unetkit train {out}")
    return 0


def _summary(recipe: Recipe) -> str:
    training, size = recipe.training, recipe.data.size
    unit = "px" if recipe.data.source.rank == 2 else "samples"
    pixels = f"{size} {unit}" if isinstance(size, int) else f"{size[0]} x {size[1]} px"
    length = f"{training.images:,} images" if training.images else f"{training.epochs:g} epochs"
    return f"{recipe.name}, {recipe.data.source.kind} at {pixels}, {recipe.model.preset}, {length} in batches of {training.batch}"
