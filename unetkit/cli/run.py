"""`unetkit train | generate | export | evaluate | compare`: what makes a run folder, what works with one, and with its pictures."""

from __future__ import annotations

import argparse
from typing import Any

from unetkit.cli.parser import Commands, add_allow_code, add_command, add_json, add_recipe, answer, count, import_from_here, read_recipe
from unetkit.errors import UserError


def register(commands: Commands) -> None:
    parser = add_command(
        commands, "train", train, "train a recipe, or go on with a run that was interrupted", "unetkit train recipes/emoji.yaml"
    )
    add_recipe(parser)
    parser.add_argument("--run", metavar="DIR", help="the run folder (default: runs/NAME)")
    parser.add_argument("--init-from", metavar="RUN", help="start from the weights of another run, or of a weights file")
    add_no_recompile(parser)

    parser = add_command(
        commands,
        "generate",
        generate,
        "send images or WAV files of any size through a trained run, or let it make pictures from noise",
        "unetkit generate runs/emoji sketches --out pictures",
    )
    parser.add_argument("run", metavar="RUN", help="the run folder, or a bundle that export wrote")
    parser.add_argument("inputs", metavar="INPUT", nargs="*", help="image (or WAV) files and folders of them")
    parser.add_argument("--out", metavar="DIR", required=True, help="where the pictures go")
    add_sampling(parser)
    parser.add_argument(
        "--depth", type=int, choices=(8, 16, 24, 32), help="bits per channel (default: 8 for pictures, 16 for sound, where 32 are float)"
    )
    add_cut(parser)
    add_no_recompile(parser)
    parser.add_argument("--enlarged", action="store_true", help="the inputs of a super_resolve run have been enlarged already")
    add_allow_code(parser)

    add_export(commands)

    parser = add_command(
        commands,
        "evaluate",
        evaluate,
        "L1, PSNR and SSIM (SNR for sound) of a run, beside the trivial answers",
        "unetkit evaluate runs/emoji --json -",
    )
    parser.add_argument("run", metavar="RUN", help="the run folder")
    add_json(parser)
    add_allow_code(parser)

    parser = add_command(
        commands, "compare", compare, "KID and FID between two folders of images", "unetkit compare photos pictures --json -"
    )
    parser.add_argument("real", metavar="REAL", help="folder of true images")
    parser.add_argument("made", metavar="MADE", help="folder of made images")
    parser.add_argument("--features", metavar="FILE", help="a Keras model's .keras file (default: the features that ship with unetkit)")
    parser.add_argument(
        "--values",
        choices=("bytes", "zero_to_one", "minus_one_to_one"),
        help="the range that the model of --features wants (default: minus_one_to_one)",
    )
    add_json(parser)


def add_export(commands: Commands) -> None:
    """`unetkit export`."""
    parser = add_command(
        commands,
        "export",
        export,
        "write a run's network in a format that others run, with all that is needed to use it",
        "unetkit export runs/emoji --format onnx --out emoji.bundle",
    )
    parser.add_argument("run", metavar="RUN", help="the run folder")
    parser.add_argument("--format", required=True, choices=("keras", "savedmodel", "onnx", "stablehlo", "litert"), help="of the network")
    parser.add_argument("--out", metavar="DIR", required=True, help="the folder to make; `unetkit generate DIR ...` takes it like a run")
    parser.add_argument("--raw-weights", action="store_true", help="the raw weights in place of their average")
    add_cut(parser)
    add_allow_code(parser)


def export(args: argparse.Namespace) -> int:
    """Writes a bundle."""
    if args.allow_code:
        import_from_here()
    from unetkit.inference import export

    out = export(args.run, args.format, args.out, average=not args.raw_weights, allow_code=args.allow_code, **cut(args))
    print(f"wrote {out}\nnext: unetkit generate {out} IMAGE --out pictures")
    return 0


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """How runs of flow and diffusion make pictures."""
    parser.add_argument(
        "--count", metavar="N", type=count, help="flow, diffusion: how many pictures to make, of a run that takes no images"
    )
    parser.add_argument("--class", metavar="NAME", dest="label", help="flow, diffusion: the class of all pictures (default: all in turn)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="flow, diffusion: of the noise they begin with (default: 0)")
    parser.add_argument("--steps", metavar="N", type=count, help="flow, diffusion: steps per picture (default: the recipe's)")
    parser.add_argument("--guidance", metavar="G", type=float, help="flow, diffusion: towards the condition (default: the recipe's)")


def add_no_recompile(parser: argparse.ArgumentParser) -> None:
    """`--no-recompile`."""
    parser.add_argument("--no-recompile", action="store_true", help="exit 3 where a step is compiled a second time")


def add_cut(parser: argparse.ArgumentParser) -> None:
    """How inputs larger than a tile are cut; `cut` reads it."""
    parser.add_argument("--tile", metavar="N", type=count, help="side of a tile in pixels (default: the training size)")
    parser.add_argument(
        "--overlap", metavar="N", type=_overlap, default="auto", help="least pixels that tiles share (default: twice the receptive radius)"
    )
    parser.add_argument("--window", choices=("auto", "exact", "hann", "gaussian"), default="auto", help="how neighbours are blended")
    parser.add_argument("--tiles-at-once", metavar="N", type=count, help="tiles computed at once (default: what suits the device)")


def cut(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `add_cut` as those of `Tiled`."""
    return {"tile": args.tile, "overlap": args.overlap, "window": args.window, "batch": args.tiles_at_once}


def _overlap(text: str) -> int | str:
    return "auto" if text == "auto" else int(text)


def train(args: argparse.Namespace) -> int:
    """Trains, and ends by saying where everything is."""
    recipe = read_recipe(args)
    import_from_here()
    from unetkit.fitting import fit
    from unetkit.runs import names

    result = fit(recipe, args.run, init_from=args.init_from, no_recompile=args.no_recompile)
    if result.exit_status == 0 and result.host == 0:
        path = result.path
        figures = ", ".join(f"{name} {value:.4g}" for name, value in result.metrics.items())
        print(f"pictures    {path / names.SAMPLES}/ and {path / names.CURVES}")
        print(f"metrics     {path / names.STATS}{f' (last validation: {figures})' if figures else ''}")
        print(f"checkpoint  {path / names.CHECKPOINTS}/, and the network by itself: {path / names.MODEL}")
        given, made = ("IMAGE", "pictures") if recipe.data.source.rank == 2 else ("FILE.wav", "sounds")
        print(f"next        unetkit evaluate {path}; unetkit generate {path} {given} --out {made}")
    return result.exit_status


def generate(args: argparse.Namespace) -> int:
    """Writes one picture for each input image, or as many as are asked for."""
    if args.allow_code:
        import_from_here()
    from unetkit.inference import draw, generate

    if bool(args.inputs) == (args.count is not None):
        raise UserError("name INPUT images to work on, or with --count N how many pictures to make from noise; one of the two")
    if args.seed < 0:
        raise UserError(f"--seed: {args.seed} is negative; use 0 or more")
    sampling = {"seed": args.seed, "steps": args.steps, "guidance": args.guidance}
    if args.label is not None and args.count is None:
        raise UserError("--class: it is said of pictures made by --count; leave it out")
    if args.count is not None:
        draw(
            args.run,
            args.count,
            args.out,
            label=args.label,
            **sampling,
            depth=args.depth or 8,
            batch=args.tiles_at_once,
            allow_code=args.allow_code,
        )
        return 0
    flags = {name: getattr(args, name) for name in ("depth", "enlarged", "allow_code", "no_recompile")}
    generate(args.run, args.inputs, args.out, **flags, **sampling, **cut(args))
    return 0


def evaluate(args: argparse.Namespace) -> int:
    """Prints the figures of all validation images."""
    if args.allow_code:
        import_from_here()
    from unetkit.inference.evaluation import evaluate_run, table

    figures = evaluate_run(args.run, allow_code=args.allow_code, progress=True)
    answer(args.json, table(figures), figures)
    return 0


def compare(args: argparse.Namespace) -> int:
    """Prints the distances between two sets of pictures."""
    from unetkit.inference.comparing import compare_folders, table

    if args.values and not args.features:
        raise UserError("--values is said of a model of yours: name it with --features FILE, or leave --values out")
    values = args.values or "minus_one_to_one"
    figures = compare_folders(args.real, args.made, features=args.features, values=values, progress=True)
    answer(args.json, table(figures), figures)
    return 0
