"""`unetkit doctor`."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from unetkit.cli.parser import Commands, add_command, add_json, answer

MARKS = {"ok": "ok", "warning": "look", "failed": "FAIL"}


def register(commands: Commands) -> None:
    parser = add_command(commands, "doctor", doctor, "is this machine fit to train? exit status 1 where it is not", "unetkit doctor")
    parser.add_argument(
        "--device", choices=("auto", "cpu", "gpu", "tpu"), default="auto", help="that has to be there (default: $UNETKIT_DEVICE)"
    )
    parser.add_argument("--backend", choices=("tensorflow", "jax"), help="engine to try (default: $KERAS_BACKEND, or what is installed)")
    parser.add_argument("--runs", metavar="DIR", type=Path, default=Path("runs"), help="where run folders go (default: runs)")
    parser.add_argument("--quick", action="store_true", help="load no engine and train no step, as beside a training that holds the device")
    add_json(parser)


def doctor(args: argparse.Namespace) -> int:
    """Prints each check as it is made."""
    from unetkit.doctor import examine, healthy

    checks = []
    stream = sys.stderr if args.json == "-" else sys.stdout
    for check in examine(args.device, args.backend, args.runs, quick=args.quick):
        checks.append(check)
        found = check.found.replace("\n", "\n" + " " * 25)
        print(f"{MARKS[check.state]:5} {check.name:18} {found}", file=stream, flush=True)
        if check.remedy:
            print(f"{'':24} -> {check.remedy}", file=stream, flush=True)
    works = healthy(checks)
    verdict = "fit to train" if works else f"not fit to train: {', '.join(check.name for check in checks if check.state == 'failed')}"
    answer(args.json, verdict, {"ok": works, "checks": [dataclasses.asdict(check) for check in checks]})
    return 0 if works else 1
