"""What must hold between keys, and options that another key switches off."""

import pytest

from unetkit import recipe as recipes
from unetkit.recipe import RecipeError, checks, kinds

BASE = {"name": "r", "data": {"source": "emoji"}, "training": {"images": 1000}}


def problems(*overrides, base=BASE):
    with pytest.raises(RecipeError) as caught:
        recipes.read(base, overrides)
    return {problem.path: problem.message for problem in caught.value.problems}


def test_exactly_one_length_is_wanted():
    without = {key: value for key, value in BASE.items() if key != "training"}
    assert "how long to train is missing" in problems(base=without)["training"]
    assert "images 1000 and epochs 2.5 are both given; keep one, and set the other to null" in problems("training.epochs=2.5")["training"]
    assert recipes.read(without, ["training.epochs=0.5"]).training.images is None
    assert recipes.read(BASE, ["training.epochs=0.5", "training.images=null"]).training.epochs == 0.5


@pytest.mark.parametrize(
    ("batch", "accumulate", "replicas", "told"),
    [
        (10, 4, 1, "10 cannot be divided by accumulate 4; the nearest that can: 8 and 12"),
        (12, 1, 8, "12 cannot be divided by replicas 8; the nearest that can: 8 and 16"),
        (20, 2, 4, "accumulate 2 x replicas 4; the nearest that can: 16 and 24"),
        (1, 2, 1, "the nearest that can: 2"),
    ],
)
def test_the_batch_is_shared_evenly(batch, accumulate, replicas, told):
    overrides = [f"training.batch={batch}", f"training.accumulate={accumulate}", f"hardware.replicas={replicas}"]
    assert told in problems(*overrides)["training.batch"]


def test_batches_that_divide_pass():
    for batch, accumulate, replicas in ((12, 3, 4), (8, 1, 8), (1, 1, 1)):
        overrides = [f"training.batch={batch}", f"training.accumulate={accumulate}", f"hardware.replicas={replicas}"]
        assert recipes.read(BASE, overrides).training.batch == batch


@pytest.mark.parametrize("model", ["unet", "original"])
@pytest.mark.parametrize("halvings", range(1, 6))
def test_sizes_that_do_not_halve_are_refused_with_the_nearest_that_do(model, halvings):
    network = f"levels={[4] * (halvings + 1)}" if model == "unet" else f"depth={halvings}"
    overrides = [f"model.preset={model}", f"model.{network}"]
    multiple = 2**halvings
    for size in (3 * multiple, [multiple, 2 * multiple]):
        recipes.read(BASE, [*overrides, f"data.size={size}"])
    for size in (3 * multiple - 1, 3 * multiple + 1, [3 * multiple + 1, multiple]):
        message = problems(*overrides, f"data.size={size}")["data.size"]
        assert str(3 * multiple) in message and str(size) in message


def test_the_example_of_358_pixels_and_three_halvings():
    message = problems("model.levels=[4, 4, 4, 4]", "data.size=358")["data.size"]
    assert "358" in message and "352 and 360" in message


def test_a_bottom_below_one_pixel_is_refused():
    assert "128" in problems("model.levels=[4, 4, 4, 4, 4, 4, 4, 4]", "data.size=64")["data.size"]


def test_a_network_has_a_level():
    assert set(problems("model.levels=[]")) == {"model.levels"}


def test_growth_leaves_no_level_without_channels():
    overrides = ["model.preset=original", "model.start_ch=4", "model.depth=3", "model.inc_rate=0.4"]
    assert "0.4 leaves level 2 without channels" in problems(*overrides)["model.inc_rate"]


def test_an_even_kernel_is_refused():
    assert "use 3 or 5" in problems("model.kernel_size=4")["model.kernel_size"]
    assert recipes.read(BASE, ["model.up_kernel_size=2"]).model.up_kernel_size == 2


def test_the_output_has_the_channels_of_the_target():
    assert "4 channels cannot be compared with 3" in problems("model.output_channels=4")["model.output_channels"]
    assert recipes.read(BASE, ["model.output_channels=3"]).model.output_channels == 3


@pytest.mark.parametrize("override", ["hardware.device=tpu", "tpu.chip=v3-8"])
def test_float16_on_a_tpu_is_refused_with_bfloat16(override):
    assert "use mixed_bfloat16" in problems("training.precision=mixed_float16", override)["training.precision"]
    assert recipes.read(BASE, ["training.precision=mixed_bfloat16", override])
    assert recipes.read(BASE, ["training.precision=mixed_float16", "hardware.device=gpu"])


def test_a_warm_up_longer_than_the_run_is_refused():
    assert "longer than the run" in problems("optimizer.warmup_images=1001")["optimizer.warmup_images"]
    assert recipes.read(BASE, ["optimizer.warmup_images=1000"])


def test_rules_are_silent_about_keys_that_are_wrong_by_themselves():
    assert set(problems("data.size=63x", "training.batch=0", "training.accumulate=4")) == {"data.size", "training.batch"}
    assert set(problems("training.images=many")) == {"training.images"}
    assert set(problems("model.levels=[4, [8]]", "model.groups=3")) == {"model.levels[1]"}
    assert set(problems("model.levels=[4, x]", "data.size=63")) == {"model.levels[1].channels"}


SIGNALS = ["data.source={kind: tones, task: denoise}", "data.input_channels=1", "data.target_channels=1", "model.rank=1"]
UNUSED = {
    "data.augment.crop_margin": (0.1, "data.source=emoji"),
    "data.background": ([0, 0, 0], "data.source=emoji"),
    "data.resize": ("pad", "data.source=emoji"),
    "data.max_bad": (0.5, "data.on_bad=skip"),
    "model.block_args": ("{a: 1}", "model.block=a.b:C"),
    "model.groups": (4, "model.norm=group"),
    "model.heads": (2, "model.levels=[4, {channels: 8, attention: true}]"),
    "model.negative_slope": (0.1, "model.activation=leaky_relu"),
    "model.packing": ("[[2, 2]]", "model.lowering=packed"),
    "objective.ssim_share": (0.5, "objective.loss=ssim_l1"),
    "objective.epsilon": (0.5, "objective.loss=charbonnier"),
    "optimizer.final_share": (0.1, "optimizer.schedule=cosine"),
    "optimizer.no_decay": ("[head/*]", "optimizer.weight_decay=0.1"),
    "optimizer.nesterov": ("true", "optimizer.momentum=0.9"),
    "training.lr_batch": (32, "training.lr_scaling=linear"),
    "training.ema_warmup": (0.5, "training.ema=0.9"),
    "data.classes": ("[a]", "objective.condition=class"),
    "model.embedding_channels": (8, "objective.kind=flow"),
    "objective.discriminator.groups": (4, "objective.discriminator.norm=group"),
    "objective.condition_dropout": (0.2, "objective.condition=image"),
    "objective.guidance": (2.0, "objective.condition=image"),
    "objective.gamma": (3.0, "objective.weighting=min_snr"),
    "objective.schedule": ("linear", "objective.prediction=v"),
    **{f"objective.{name}": (1.5, "objective.prediction=edm") for name in checks.EDM},
    "training.sync_batch_norm": ("false", "model.norm=batch"),
}
LINEAR = ["model.block=modulated", "model.output_activation=linear"]
FLOW, DIFFUSION = ([f"objective.kind={kind}", *LINEAR] for kind in ("flow", "diffusion"))
SWITCHED_OFF = {
    "data.augment.crop_margin": SIGNALS,
    "data.background": SIGNALS,
    "data.resize": SIGNALS,
    "model.groups": ["model.norm=batch"],
    "optimizer.nesterov": ["optimizer.name=sgd"],
    "data.classes": FLOW,
    "model.embedding_channels": LINEAR,
    "objective.discriminator.groups": ["objective.kind=adversarial"],
    "objective.condition_dropout": DIFFUSION,
    "objective.guidance": DIFFUSION,
    "objective.gamma": FLOW,
    "objective.schedule": DIFFUSION,
    **{f"objective.{name}": [*DIFFUSION, "objective.prediction=v"] for name in checks.EDM},
}


@pytest.mark.parametrize("path", UNUSED)
def test_an_option_that_would_be_ignored_is_an_error(path):
    value, switch = UNUSED[path]
    off = SWITCHED_OFF.get(path, [])
    assert "it has no effect unless" in problems(*off, f"{path}={value}")[path]
    on = [override for override in off if off is not SIGNALS and override.partition("=")[0] != switch.partition("=")[0]]
    recipes.read(BASE, [*on, switch, f"{path}={value}"])


def test_every_rule_names_keys_that_exist():
    known = {item.path for item in kinds.every_key()}
    named = {path for rule in checks.RULES for path in rule.reads} | {p for rule in checks.UNUSED for p in (rule.path, *rule.reads)}
    assert named <= known
    assert {rule.path for rule in checks.UNUSED} == UNUSED.keys()


@pytest.mark.parametrize(
    ("packing", "said"),
    [
        ("[]", "it is empty, but `lowering` is packed"),
        ("[[2]]", r"[2] must be 2 numbers, the pixels per axis of a block"),
        ("[[1, 2], [1, 2], [1, 2], [1, 2]]", "4 blocks for 3 levels; leave out the last 1"),
    ],
)
def test_a_packing_has_a_block_for_levels_that_are_there(packing, said):
    found = problems("model.levels=[4, 8, 16]", "model.lowering=packed", f"model.packing={packing}")
    assert said in found["model.packing"]


def test_heads_share_the_channels_of_every_level_with_attention():
    found = problems("model.levels=[4, {channels: 9, attention: true}]")
    assert found == {"model.heads": "4 heads cannot share 9 channels; the nearest that can: 3"}
    assert recipes.read(BASE, ["model.levels=[9, {channels: 8, attention: true}]"]).model.heads == 4


def test_a_recipe_for_signals_says_so():
    read = recipes.read(BASE, SIGNALS)
    assert (read.model.rank, read.data.source.rank, read.data.size) == (1, 1, 64)
    found = problems(*SIGNALS[:-1])
    assert found == {"model.rank": "2 does not fit data.source: tones, which has signals; set rank: 1"}
    assert problems("model.rank=1")["model.rank"] == "1 does not fit data.source: emoji, which has images; set rank: 2"
    assert "use unet with rank: 1" in problems(*SIGNALS[:-1], "model.preset=original")["model.preset"]
    assert problems(SIGNALS[0], SIGNALS[3], "data.input_channels=1") == {
        "data.target_channels": "data.source: tones has one channel, received 3; set target_channels: 1"
    }
    sound = ["data.source={kind: sound, path: here, rate: 8000, task: denoise}", "model.rank=1"]
    assert recipes.read(BASE, [*sound, "data.input_channels=2", "data.target_channels=2"]).data.source.channel == "mean"
    assert "give both the same number" in problems(*sound, "data.input_channels=2")["data.target_channels"]
    assert "data.source.rate" in problems("data.source={kind: sound, path: here, task: denoise}", "model.rank=1")


@pytest.mark.parametrize(
    ("override", "path", "said"),
    [
        ("data.size=[64, 32]", "data.size", "a signal has one length, such as 64"),
        ("data.size=66", "data.size", "the nearest sizes that work are 64 and 72"),
        ("data.augment.flip=both", "data.augment.flip", "use horizontal"),
        ("checkpoint.metric=ssim", "checkpoint.metric", "of signals there are l1, psnr and snr"),
        ("objective.loss=ssim_l1", "objective.loss", "use l1, l2, charbonnier or psnr for signals"),
        ("model.packing=[[2, 2]]", "model.packing", "must be 1 number"),
    ],
)
def test_what_only_images_have_is_refused_for_signals(override, path, said):
    packed = ["model.lowering=packed"] if path == "model.packing" else []
    assert said in problems(*SIGNALS, *packed, override)[path]
    assert problems("checkpoint.metric=snr")["checkpoint.metric"].startswith("snr is for signals")


@pytest.mark.parametrize("side", ["input", "target"])
def test_images_have_1_3_or_4_channels(side):
    assert "1 is grey, 3 RGB, 4 RGBA" in problems(f"data.{side}_channels=2", "model.output_channels=null")[f"data.{side}_channels"]
