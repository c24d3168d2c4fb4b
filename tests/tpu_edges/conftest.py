"""A composed answer: the shapes of a small U-Net on a v2-8, with figures that are easy to follow, not compiled ones."""

import dataclasses

import pytest

from unetkit.tpu import tiles
from unetkit.tpu.answer import Advice, Answer, Buffer, Category, Curve, Hbm, Level, Operation, Padding, Part, Step

MIB = 2**20


def buffer(kind, layer, text, **more):
    tiled = tiles.parse(text)
    shape = f"{tiled.dtype}[{','.join(map(str, tiled.shape))}]"
    return Buffer(
        kind=kind, layer=layer, shape=shape, layout=f"{{{tiled.layout}}}", unpadded_bytes=tiled.unpadded_bytes,
        padded_bytes=tiled.padded_bytes, **more,
    )  # fmt: skip


def _buffers():
    found = []
    for level, (side, channels) in enumerate([(256, 64), (128, 128), (64, 256), (32, 512)]):
        for side_name in ("down", "up"):
            for conv in (1, 2):
                layer = f"{side_name}_{level}/block0/conv{conv}"
                found.append(buffer("activation", layer, f"bf16[16,{side},{side},{channels}]{{3,0,2,1:T(8,128)(2,1)}}"))
                found.append(buffer("weight", f"{layer}/kernel", f"f32[3,3,{channels},{channels}]{{3,2,1,0:T(8,128)}}"))
    found.append(buffer("gradient", "up_0/block0/conv1", "f32[16,256,256,64]{3,0,2,1:T(8,128)}", instruction="fusion.226"))
    found.append(buffer("input", "input", "f32[16,256,256,3]{2,3,1,0:T(4,128)}"))
    found.append(Buffer(kind="optimizer", shape="128 small buffers", layout=None, unpadded_bytes=9 * MIB, padded_bytes=10 * MIB, count=128))
    return tuple(sorted(found, key=lambda b: -b.padded_bytes))


def _operations():
    made = []
    for index, (layer, category, flops, moved, ms) in enumerate(
        [
            ("up_0/block0/conv1", "convolution fusion", 1.4e12, 1.1e9, 95.0),
            ("down_0/block0/conv2", "convolution fusion", 0.8e12, 0.9e9, 62.0),
            ("up_0/block0/conv2", "convolution", 0.8e12, 0.8e9, 55.0),
            ("up_1/block0/conv1", "convolution fusion", 0.7e12, 0.4e9, 50.0),
            ("down_1/block0/conv2", "convolution fusion", 4e11, 0.3e9, 29.0),
            ("downsample_0", "select-and-scatter", 1e8, 1.6e9, 8.0),
            ("head", "convolution fusion", 1e10, 0.6e9, 4.0),
            (None, "all-reduce", None, 6e8, 6.0),
            ("up_0/block0/conv1", "loop fusion", 3e8, 1.2e9, 7.0),
            (None, "data formatting", None, 8e8, 5.0),
        ]
    ):
        parts = (
            Part(opcode="convolution", kind="convolution", shape="f32[16,256,256,64]", layer=layer, flops=flops, share=0.93),
            Part(opcode="maximum", kind="element-wise", shape="f32[16,256,256,64]", layer=layer, count=2, share=0.07),
        )
        rate = None if flops is None else flops / (ms / 1000) / 23e12
        made.append(
            Operation(
                name=f"fusion.{200 + index}", category=category, ms=ms, time_share=ms / 321, shape="f32[16,256,256,64]", layer=layer,
                in_pass="backward" if index % 2 else "forward", estimated_from="bytes" if category == "select-and-scatter" else "cycles",
                flops=flops, bytes_accessed=moved, flops_utilization=rate, hbm_utilization=moved / (ms / 1000) / 350e9,
                wasted_share=None if rate is None else ms / 321 * (1 - rate), parts=parts if "convolution" in category else (),
            )
        )  # fmt: skip
    return tuple(made)


def _categories(operations):
    rows = []
    for name in dict.fromkeys(o.category for o in operations):
        own = [o for o in operations if o.category == name]
        ms = sum(o.ms for o in own)
        rate = sum(o.flops or 0 for o in own) / (ms / 1000) / 23e12
        moved = sum(o.bytes_accessed for o in own) / (ms / 1000) / 350e9
        rows.append(
            Category(
                name=name, time_share=ms / 321, ms=ms, operations=len(own), flops_utilization=rate, hbm_utilization=moved,
                wasted_share=ms / 321 * (1 - max(rate, moved)), estimated_from_bytes_share=float(name == "select-and-scatter"),
            )
        )  # fmt: skip
    return tuple(sorted(rows, key=lambda row: -row.time_share))


def _curve():
    padded = [int((400 + 4800 * (1 - abs(i - 120) / 120) ** 0.8) * MIB) for i in range(240)]
    return Curve(
        positions=tuple(range(240)), padded_bytes=tuple(padded), unpadded_bytes=tuple(int(b * 0.58) for b in padded),
        instructions=tuple(f"fusion.{i}" for i in range(240)), peak=120,
    )  # fmt: skip


def _levels():
    passes = ("forward", "backward")
    return tuple(Level(name=f"level {n}", in_pass=p, ms=80.0 / (n + 1), time_share=0.25 / (n + 1)) for n in range(4) for p in passes)


@pytest.fixture
def network():
    """A Keras model of one convolution, compiled."""
    import keras  # most tests here need no engine

    image = keras.Input((8, 8, 3))
    net = keras.Model(image, keras.layers.Conv2D(3, 3, padding="same")(image), name="tiny")
    net.compile("adam", "mae")
    return net


@pytest.fixture(scope="session")
def answer():
    """The question's U-Net at batch 128 on a v2-8, as `inspect` might answer."""
    operations = _operations()
    return Answer(
        name="the-question", chip="v2-8", chips=4, cores=8, replicas=8, global_batch=128, per_core_batch=16, source="compiled",
        program="jax", fits=True, image=(256, 256), operations=operations, categories=_categories(operations), buffers=_buffers(),
        hbm=Hbm(limit_bytes=int(7.48 * 1024) * MIB, peak_bytes=5200 * MIB, argument_bytes=400 * MIB, temp_bytes=4800 * MIB),
        padding=Padding(ratio=1.72, peak_padded_bytes=5200 * MIB, peak_unpadded_bytes=3023 * MIB), curve=_curve(), levels=_levels(),
        step=Step(
            estimated_ms=321.0, images_per_second=398.8, images_per_second_per_chip=99.7, mxu_utilization=0.56,
            estimated_from_bytes_share=0.08,
        ),
        advice=(
            Advice(text="bfloat16 halves the activations: training.precision: mixed_bfloat16", quantity="peak bytes", before=5200 * MIB,
                   after=3100 * MIB, tried="compiled"),
        ),
        notes=("select-and-scatter has no cycle figure; its time comes from its bytes",), versions={"jax": "0.10.2", "libtpu": "0.0.52"},
    )  # fmt: skip


@pytest.fixture(scope="session")
def refused(answer):
    """The same net at a batch that the compiler refuses, its layer names as hostile as names may be."""
    return dataclasses.replace(
        answer, name="</script><b>&", source="compiler_oom", fits=False, global_batch=1024, per_core_batch=128, curve=None, operations=(),
        categories=(), levels=(), step=Step(), advice=(), padding=Padding(), hbm=Hbm(limit_bytes=7659 * MIB, peak_bytes=21832 * MIB),
        buffers_from="scaled from a compiled batch of 64", failure="RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom",
    )  # fmt: skip
