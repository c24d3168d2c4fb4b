"""64 signals of 64 lengths and 32 images of 32 sizes: compiled per shape against `Tiled`, side by side in one run.

    python benchmarks/new_lengths.py --engine tensorflow
    python benchmarks/new_lengths.py --engine jax --only signals

Cold: the whole stream, nothing compiled before. Warm: the same streams again, all compiled, in turns, the fastest of three;
per computed pixel, so that overlap counts as work done. What is wanted: 4 times faster cold, 1.15 times the time per pixel warm.
Of the cold seconds, what the same stream does not take warm is printed too: the price of new shapes. `at most` is how much faster
a stream without that price could be, however it is made, if it computes every pixel once: no overlap, nothing compiled.
"""

import argparse
import itertools
import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from unetkit import backend

ROUNDS = 3
LEAST_COLD, MOST_WARM = 4.0, 1.15
TILES = {1: 4096, 2: 128}


def seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def sizes() -> dict[str, list[tuple[int, ...]]]:
    """All different, multiples of 4, in no order."""
    rng = np.random.default_rng(0)
    lengths = 4 * rng.choice(np.arange(1000, 4000), 64, replace=False)
    sides = 4 * rng.choice(np.arange(24, 72), (32, 2))
    assert len(set(map(tuple, sides.tolist()))) == 32
    return {"64 signals of 64 lengths": [(int(n),) for n in lengths], "32 images of 32 sizes": [tuple(map(int, pair)) for pair in sides]}


def compare(name: str, shapes: Sequence[tuple[int, ...]], tile: int, whole_way: str, channels: Sequence[int]) -> None:
    from unetkit.bench.measure import ways
    from unetkit.bench.network import plain_unet
    from unetkit.inference import Tiled

    model = plain_unet(len(shapes[0]), channels)
    rng = np.random.default_rng(1)
    stream = [rng.normal(size=(*sides, model.input_shape[-1])).astype("float32") for sides in shapes]
    whole = ways(model, tile)[whole_way]
    made: list[Tiled] = []

    def by_tiles() -> None:
        if not made:
            made.append(Tiled(model, tile))
        for _ in made[0].map(stream):
            pass

    def by_shape() -> None:
        for x in stream:
            whole(x)

    cold_shape, cold_tiles = seconds(by_shape), seconds(by_tiles)
    turns = [(seconds(by_shape), seconds(by_tiles)) for _ in range(ROUNDS)]
    warm_shape, warm_tiles = (min(turn) for turn in zip(*turns, strict=True))
    pixels = sum(map(math.prod, shapes))
    tiles = sum(made[0].plan(sides).tiles for sides in shapes)
    computed = math.ceil(tiles / made[0].batch) * made[0].batch * math.prod(made[0].tile)
    largest = max(np.abs(found - whole(x)[0]).max() for x, found in zip(stream, made[0].map(itertools.islice(stream, 3)), strict=False))
    cold, warm = cold_shape / cold_tiles, warm_tiles / computed / (warm_shape / pixels)
    print(f"{name}, tiles of {' x '.join(map(str, made[0].tile))}, {made[0].window}, difference {largest:.0e}")
    print(f"  cold   per shape {cold_shape:7.2f} s   Tiled {cold_tiles:7.2f} s   {cold:.1f} times faster {verdict(cold >= LEAST_COLD)}")
    price, ours, most = cold_shape - warm_shape, cold_tiles - warm_tiles, cold_shape / warm_shape
    print(f"  of it  new shapes {price:6.2f} s   Tiled {ours:7.2f} s   at most {most:.1f}")
    print(f"  warm   per shape {warm_shape:7.2f} s   Tiled {warm_tiles:7.2f} s   redundancy {computed / pixels:.2f}", end="")
    print(f"   per computed pixel {warm:.2f} times {verdict(warm <= MOST_WARM)}", flush=True)


def verdict(reached: bool) -> str:
    return "(reached)" if reached else "(not reached)"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compiled per shape against Tiled.")
    parser.add_argument("--engine", choices=("tensorflow", "jax"), default="tensorflow")
    parser.add_argument("--only", choices=("signals", "images"))
    parser.add_argument("--channels", default="32,64,128", help="of the network's levels (default: 32,64,128)")
    asked = parser.parse_args()
    channels = tuple(map(int, asked.channels.split(",")))
    backend.select(asked.engine)
    way = {"tensorflow": "tf.function", "jax": "jax.jit"}[asked.engine]
    print(f"{asked.engine}, {way} per shape, channels {asked.channels}; wanted: {LEAST_COLD:g} and {MOST_WARM} times")
    for name, shapes in sizes().items():
        if asked.only is None or asked.only in name:
            compare(name, shapes, TILES[len(shapes[0])], way, channels)
