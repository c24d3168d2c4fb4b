"""How long `unetkit --help` and `unetkit recipe check` take: `python benchmarks/cli_startup.py`.

Each is run 11 times in turn after one run to warm the file cache; the medians are printed, with the interpreter's own
start for comparison. Exit status 1 if one is over the limit. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT_SECONDS = 0.4
RUNS = 11
COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "unetkit --help": ("-m", "unetkit", "--help"),
    "unetkit recipe check recipes/emoji.yaml": ("-m", "unetkit", "recipe", "check", "recipes/emoji.yaml"),
}


def seconds(arguments: tuple[str, ...]) -> float:
    """Wall-clock seconds of one run."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> int:
    """Prints the table; 1 if a command is too slow."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for run in range(1 + RUNS):
        for name, arguments in COMMANDS.items():
            taken = seconds(arguments)
            if run:
                times[name].append(taken)
    medians = {name: statistics.median(runs) for name, runs in times.items()}
    for name, median in medians.items():
        print(f"{name:42} {median:.3f} s (slowest {max(times[name]):.3f})")
    return int(max(medians.values()) > LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
