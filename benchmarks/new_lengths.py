"""64 signals of 64 lengths and 32 images of 32 sizes: compiled per shape against `Tiled`, side by side in one run.

    python benchmarks/new_lengths.py tensorflow
    python benchmarks/new_lengths.py jax

Cold: the whole stream, nothing compiled before. Warm: the same streams again, all compiled, in turns, the fastest of three;
per computed pixel, so that overlap counts as work done. What is wanted: 4 times faster cold, 1.15 times the time per pixel warm.
"""

import itertools
import math
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from unetkit import backend

ROUNDS = 3


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


def compare(name: str, shapes: Sequence[tuple[int, ...]], tile: int, whole_way: str) -> None:
    from unetkit.bench.measure import ways
    from unetkit.bench.network import plain_unet
    from unetkit.inference import Tiled

    model = plain_unet(len(shapes[0]), (32, 64, 128))
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
    print(f"{name}, tiles of {' x '.join(map(str, made[0].tile))}, {made[0].window}, difference {largest:.0e}")
    print(f"  cold   per shape {cold_shape:7.2f} s   Tiled {cold_tiles:7.2f} s   {cold_shape / cold_tiles:5.1f} times faster")
    print(f"  warm   per shape {warm_shape:7.2f} s   Tiled {warm_tiles:7.2f} s   redundancy {computed / pixels:.2f}", end="")
    print(f"   per computed pixel {warm_tiles / computed / (warm_shape / pixels):.2f} times")


if __name__ == "__main__":
    engine = sys.argv[1] if len(sys.argv) > 1 else "tensorflow"
    backend.select(engine)
    way = {"tensorflow": "tf.function", "jax": "jax.jit"}[engine]
    print(f"{engine}, {way} per shape")
    for (name, shapes), tile in zip(sizes().items(), (4096, 128), strict=True):
        compare(name, shapes, tile, way)
