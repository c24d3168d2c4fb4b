"""Images per second of the input pipeline: a folder of 256 px JPEG pairs, resized, cropped, mirrored and jittered to 64 px.

    taskset -c 0,1 python benchmarks/input_pipeline.py --train-rate RATE

makes the folder (1,000 pairs of photograph-like images, drawn by a seeded generator), reads it with the recipe's own
loader and prints pairs per second, the median of several runs after one that warms the disk cache. With a run folder
(`--run`) or a rate (`--train-rate`, images per second of `unetkit train recipes/emoji.yaml`) it prints the ratio of the
two, and fails where it is below 3: training must never wait for its data.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from unetkit.data import open_dataset
from unetkit.data.decode import read_picture
from unetkit.data.geometry import Fit
from unetkit.recipe import schema

SIDE, PAIRS, BATCH, SECONDS, RUNS = 256, 1000, 32, 4.0, 5
LEAST_RATIO = 3.0


def make_pairs(folder: Path) -> schema.Pairs:
    """Writes the pairs: smooth colours with edges and grain, at quality 90, about as large as photographs are."""
    random = np.random.default_rng(0)
    members = {name: folder / name for name in ("inputs", "targets")}
    for member in members.values():
        member.mkdir()
    for number in range(PAIRS):
        coarse = Image.fromarray(random.integers(0, 256, (9, 9, 3), np.uint8)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        pixels = np.asarray(coarse).astype(np.int16)
        top, left = random.integers(0, SIDE // 2, 2)
        pixels[top : top + SIDE // 2, left : left + SIDE // 2] += 60
        pixels += random.integers(-8, 9, pixels.shape, np.int16)
        target = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        target.save(members["targets"] / f"{number:04}.jpg", quality=90)
        target.convert("L").save(members["inputs"] / f"{number:04}.jpg", quality=90)
    return schema.Pairs(inputs=str(members["inputs"]), targets=str(members["targets"]))


def rate(data: schema.Data, seconds: float) -> tuple[float, float]:
    """Pairs per second of the loader alone, over `seconds`, and CPU milliseconds per pair over all threads."""
    with open_dataset(data, seed=0).train.batches(BATCH, ahead=2) as batches:
        next(batches)
        began, busy, images = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - began < seconds:
            images += len(next(batches)["input"])
        return images / (time.perf_counter() - began), 1000 * (time.process_time() - busy) / images


def shrunk(source: schema.Pairs) -> dict[str, float]:
    """What decoding JPEGs at half their size does to the resized targets (of 255), and to the CPU time of reading them."""
    fit = Fit(height=64, width=64, policy="crop", background=(255, 255, 255))
    paths = sorted(Path(source.targets).iterdir())[:200]
    pictures, seconds = [], []
    for detail in (None, fit.detail):
        began = time.process_time()
        pictures.append([fit.array(read_picture(path, detail).planes(3, fit.background)).astype(int) for path in paths])
        seconds.append(time.process_time() - began)
    difference = np.abs(np.subtract(*pictures))
    return {
        "shrunk_mean_difference": float(difference.mean()),
        "shrunk_largest_difference": float(difference.max()),
        "shrunk_time_share": seconds[1] / seconds[0],
    }


def train_rate(run: Path) -> float:
    """Median of images per second in a run's stats.jsonl."""
    lines = [json.loads(line) for line in (run / "stats.jsonl").read_text().splitlines()]
    return statistics.median(line["images_per_second"] for line in lines if "images_per_second" in line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, help="run folder of recipes/emoji.yaml")
    parser.add_argument("--train-rate", type=float, help="its images per second")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = make_pairs(Path(folder))
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.jpg")) / (2 * PAIRS * 1024)
        augment = schema.Augment(flip="horizontal", crop_margin=0.1, brightness=0.1, contrast=0.1)
        data = schema.Data(source=source, size=64, augment=augment)
        smaller = shrunk(source)
        rate(data, SECONDS)
        rates, busy = zip(*(rate(data, SECONDS) for _ in range(RUNS)), strict=True)
    figures = {"pairs_per_second": statistics.median(rates), "runs": rates, "cores": len(os.sched_getaffinity(0))}
    figures["cpu_ms_per_pair"] = statistics.median(busy)
    figures |= smaller
    print(f"{PAIRS:,} pairs of {SIDE} px JPEG ({size:.0f} KiB each) -> 64 px, {figures['cores']} cores, batch {BATCH}")
    spread = f"median of {RUNS}; {min(rates):,.0f} to {max(rates):,.0f}"
    print(f"{figures['pairs_per_second']:,.0f} pairs/s ({spread}), {figures['cpu_ms_per_pair']:.2f} ms of CPU time each")
    print(
        f"decoding JPEGs smaller takes {smaller['shrunk_time_share']:.2f} of the time and changes a resized picture by "
        f"{smaller['shrunk_mean_difference']:.2f} of 255 in the mean, {smaller['shrunk_largest_difference']:.0f} at most"
    )
    training = train_rate(args.run) if args.run else args.train_rate
    if training:
        figures |= {"train_images_per_second": training, "ratio": figures["pairs_per_second"] / training}
        print(f"{figures['ratio']:.1f} times the training rate of {training:,.0f} images/s (at least {LEAST_RATIO} wanted)")
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1))
    return 1 if figures.get("ratio", LEAST_RATIO) < LEAST_RATIO else 0


if __name__ == "__main__":
    sys.exit(main())
