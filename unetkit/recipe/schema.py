"""The recipe as frozen dataclasses: every key, its type, its default, its bounds and one line of help.

Defaults live here (those of optimizers in `optimizer_schema.py`) and nowhere else. A field is declared with `key(...)`,
whose metadata `kinds.py` turns into what the strict reader, the JSON Schema and the table of keys walk. Three conventions
carry the whole format:

* A union of sections is told apart by one *tag* key (`Tagged`): `data.source.kind`, `model.preset`, `objective.kind`,
  `optimizer.name`. A bare word is short for the section with that tag and every default: `source: emoji`.
* `None` always means "decided later from the rest of the recipe", and the help text says how.
* Lengths count images, never steps, so a change of batch leaves the schedule alone.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from unetkit.recipe.declare import CLASS_FORM, DOTTED_CLASS, FOLDER_NAME, NAME_FORM, Short, Tagged, key, section
from unetkit.recipe.optimizer_schema import Adam, AdamW, Lamb, Lion, Lookahead, NovoGrad, RectifiedAdam, RMSprop, Sgd

# --- data ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Emoji:
    """The built-in pairs: 1,486 outlines (input) and colour drawings (target), 64 x 64."""

    rank: ClassVar[int] = 2

    kind: Literal["emoji"] = "emoji"
    reverse: bool = key(False, "colour drawing in, outline out")


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Two folders; files with the same stem form a pair."""

    rank: ClassVar[int] = 2

    kind: Literal["pairs"] = "pairs"
    inputs: str = key(help="folder of input images")
    targets: str = key(help="folder of target images")
    unmatched: Literal["error", "skip"] = key("error", "a stem that only one folder has")


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """One folder of images that hold both members side by side."""

    rank: ClassVar[int] = 2

    kind: Literal["side_by_side"] = "side_by_side"
    path: str = key(help="folder of images")
    input: Literal["left", "right"] = key("left", "which half is the input")


@dataclass(frozen=True, kw_only=True)
class Colorize:
    """Grey -> colour."""

    kind: Literal["colorize"] = "colorize"


@dataclass(frozen=True, kw_only=True)
class SuperResolve:
    """Low resolution, enlarged again -> high resolution."""

    kind: Literal["super_resolve"] = "super_resolve"
    factor: int = key(4, "how many times smaller the input is before it is enlarged again", least=2, most=16)


@dataclass(frozen=True, kw_only=True)
class Denoise:
    """Noise -> clean."""

    kind: Literal["denoise"] = "denoise"
    sigma: float = key(0.1, "standard deviation of the Gaussian noise, as a share of the full range", above=0.0, most=2.0)


@dataclass(frozen=True, kw_only=True)
class Inpaint:
    """Masked -> whole."""

    kind: Literal["inpaint"] = "inpaint"
    share: float = key(0.25, "side of the square hole as a share of the image's side", above=0.0, below=1.0)


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """Noise from memory: no reading, no decoding. Training on it shows how fast the device could go with perfect input."""

    kind: Literal["synthetic"] = "synthetic"
    images: int = key(1024, "how many pairs", least=2)
    rank: Literal[1, 2] = key(2, "2: as images; 1: as signals")


Task = Annotated[Colorize | SuperResolve | Denoise | Inpaint, Tagged("kind")]


@dataclass(frozen=True, kw_only=True)
class Folder:
    """One folder of images; the task makes a pair of each."""

    rank: ClassVar[int] = 2

    kind: Literal["folder"] = "folder"
    path: str = key(help="folder of images")
    task: Task = key(help="what makes the input from an image")


SignalTask = Annotated[Denoise | Inpaint, Tagged("kind")]

Channel = int | Literal["mean"]


@dataclass(frozen=True, kw_only=True)
class Sound:
    """One folder of WAV files, cut into windows of `size` samples; the task makes a pair of each."""

    rank: ClassVar[int] = 1

    kind: Literal["sound"] = "sound"
    path: str = key(help="folder of WAV files")
    rate: int = key(help="samples per second that the network sees; files of another rate are resampled", least=1)
    channel: Channel = key("mean", "with one channel: the mean of a file's channels, or the number of one, from 0", least=0)
    task: SignalTask = key(help="what makes the input from a window")


@dataclass(frozen=True, kw_only=True)
class SoundPairs:
    """Two folders of WAV files; files with the same stem form a pair, cut into windows of `size` samples."""

    rank: ClassVar[int] = 1

    kind: Literal["sound_pairs"] = "sound_pairs"
    inputs: str = key(help="folder of input files")
    targets: str = key(help="folder of target files")
    rate: int = key(help="samples per second that the network sees; files of another rate are resampled", least=1)
    channel: Channel = key("mean", "with one channel: the mean of a file's channels, or the number of one, from 0", least=0)
    unmatched: Literal["error", "skip"] = key("error", "a stem that only one folder has")


@dataclass(frozen=True, kw_only=True)
class Tones:
    """Built-in signals: short tunes of decaying harmonic tones, one channel, computed when they are asked for."""

    rank: ClassVar[int] = 1

    kind: Literal["tones"] = "tones"
    count: int = key(1024, "how many tunes", least=2)
    rate: int = key(8000, "samples per second", least=1000)
    task: SignalTask = key(help="what makes the input from a tune")


@dataclass(frozen=True, kw_only=True)
class Augment:
    """Random changes, the same for both members of a pair, each a pure function of (seed, sample number)."""

    flip: Literal["none", "horizontal", "vertical", "both"] = key("none", "mirror half of the samples (signals: horizontal, in time)")
    crop_margin: float = key(0.0, "resize this share larger, then cut a random window (0.1 = up to 10 %)", least=0.0, most=1.0)
    brightness: float = key(0.0, "largest shift, as a share of the full range", least=0.0, most=1.0)
    contrast: float = key(0.0, "largest change of the contrast factor", least=0.0, below=1.0)


@dataclass(frozen=True, kw_only=True)
class Split:
    """Which samples are held out. Variants of one figure never sit on both sides."""

    validation: float = key(0.1, "share of the data held out for validation", least=0.0, below=1.0)
    limit: int | None = key(None, "use at most this many training samples (null: all)", least=1)


@dataclass(frozen=True, kw_only=True)
class Data:
    """Where pairs of images or signals come from and how they become arrays of one static shape in [-1, 1]."""

    source: Annotated[Emoji | Folder | Pairs | SideBySide | Sound | SoundPairs | Synthetic | Tones, Tagged("kind")] = key(
        help="where the images or signals are"
    )
    size: int | tuple[int, int] = key(64, "training size in pixels: one side, or [height, width]; of a signal: samples", least=1)
    input_channels: int = key(3, "channels of the input: 1 grey, 3 RGB, 4 RGBA; of a signal: any number", least=1)
    target_channels: int = key(3, "channels of the target: 1 grey, 3 RGB, 4 RGBA; of a signal: any number", least=1)
    resize: Literal["stretch", "crop", "pad"] = key(
        "crop", "how an image of another size becomes `size`: stretch it, fill and crop the centre, or fit and pad"
    )
    background: tuple[int, int, int] = key((255, 255, 255), "8-bit colour under transparent pixels and in padding", least=0, most=255)
    augment: Augment = section(Augment)
    split: Split = section(Split)
    classes: tuple[str, ...] = key((), "names of the classes, each the folder below the source's in which its images lie")
    on_bad: Literal["error", "skip"] = key("error", "an unreadable file: stop and name it, or skip and list it")
    max_bad: float = key(0.05, "with on_bad: skip, stop above this share of unreadable files", least=0.0, most=1.0)
    cache: Literal["none", "memory"] = key("none", "keep decoded, resized images in memory (before augmentation)")
    workers: int = key(0, "reading threads (0: one per CPU core, at most 16)", least=0, most=64)


# --- model --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Level:
    """One resolution of the U-Net. `null` takes the model's own value."""

    channels: int = key(help="channels of this level's convolutions", least=1)
    blocks: int | None = key(None, "blocks on each side of this level", least=1)
    norm: Literal["none", "batch", "group", "instance", "layer", "filter_response"] | None = key(None, "normalisation")
    dropout: float | None = key(None, "dropout rate inside this level's blocks", least=0.0, below=1.0)
    attention: bool = key(False, "self-attention after this level's blocks")


Lowering = Literal["plain", "packed", "auto"]

Norm = Literal["none", "batch", "group", "instance", "layer", "filter_response"]

Activation = Literal[
    "celu", "elu", "exponential", "gelu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "leaky_relu",
    "linear", "log_sigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_shrink", "softplus", "softsign",
    "sparse_plus", "sparse_sigmoid", "squareplus", "swish", "tanh", "tanh_shrink",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class UNet:
    """A U-Net from one spec per level, outermost first; the last one is the bottom."""

    preset: Literal["unet"] = "unet"
    rank: Literal[1, 2] = key(2, "2 for images, 1 for signals")
    levels: tuple[Annotated[Level, Short("channels")], ...] = key(
        (Level(channels=32), Level(channels=64), Level(channels=128), Level(channels=256)),
        "one entry per level: its channels, or a section",
    )
    block: str = key(
        "conv",
        "conv; modulated, which follows a noise level or class; or your own `package.module:Class`",
        pattern=f"conv|modulated|{DOTTED_CLASS}",
        form=f"conv, modulated, or {CLASS_FORM}",
    )
    block_args: dict[str, Any] = dataclasses.field(default_factory=dict, metadata={"help": "arguments for your own block"})
    blocks: int = key(1, "blocks per level and side", least=1)
    kernel_size: int = key(3, "kernel of the blocks' convolutions, odd", least=1)
    norm: Norm = key("group", "normalisation; filter_response brings a learned threshold, so that `activation: linear` goes with it")
    groups: int = key(8, "channel groups of group norm (the largest divisor of the channels up to this)", least=1)
    norm_first: bool = key(True, "convolution, norm, activation; false: convolution, activation, norm")
    activation: Activation = key("silu", "a Keras activation by name")
    negative_slope: float | None = key(None, "slope of leaky_relu below zero (null: 0.2)", least=0.0)
    residual: Literal["none", "add", "concat"] = key("none", "what a block does with its input")
    dropout: float = key(0.0, "dropout rate between the convolutions of the bottom level's blocks", least=0.0, below=1.0)
    down: Literal["max_pool", "strided_conv"] = key("max_pool", "how a level halves the resolution")
    up: Literal["transposed_conv", "nearest_conv", "bilinear_conv"] = key("nearest_conv", "how a level doubles it")
    up_kernel_size: int = key(3, "kernel of the up-sampler's convolution", least=1)
    heads: int = key(4, "attention heads", least=1)
    output_channels: int | None = key(None, "channels of the output (null: data.target_channels)", least=1)
    output_activation: Literal["tanh", "linear"] = key("tanh", "last activation, always in float32")
    embedding_channels: int | None = key(None, "channels of the embedding of noise level and class (null: 4 x the first level's)", least=2)
    head_norm: bool = key(False, "norm and activation before the last convolution, for blocks that end in a sum")
    zero_init: bool = key(False, "the last convolution starts at zero")
    lowering: Lowering = key("plain", "how it is laid out for a TPU: plain, packed as `packing` says, or auto: as its compiler likes best")
    packing: tuple[tuple[int, ...], ...] = key(
        (), "pixels per axis that each level keeps in the lanes, outermost first; levels left out are plain", least=1
    )


@dataclass(frozen=True, kw_only=True)
class Original:
    """The U-Net of the original question, under its own argument names and with its exact meaning."""

    preset: Literal["original"] = "original"
    start_ch: int = key(64, "channels of the first level", least=1)
    depth: int = key(4, "number of halvings", least=0, most=12)
    inc_rate: float = key(2.0, "growth of the channels per level: int(inc_rate * channels)", above=0.0)
    dropout: float = key(0.5, "dropout rate between the two convolutions at the bottom", least=0.0, below=1.0)
    batchnorm: bool = key(False, "batch norm after each activation")
    maxpool: bool = key(True, "max-pool; false: 3x3 convolution with stride 2")
    upconv: bool = key(True, "nearest resize and 2x2 convolution; false: 3x3 transposed convolution with stride 2")
    residual: bool = key(False, "concatenate a block's input to its output")
    leaky_relu_alpha: float | None = key(None, "slope of leaky ReLU below zero (null: 0.2)", least=0.0)
    output_channels: int | None = key(None, "channels of the output (null: data.target_channels)", least=1)
    lowering: Lowering = key("plain", "how it is laid out for a TPU: plain, packed as `packing` says, or auto: as its compiler likes best")
    packing: tuple[tuple[int, ...], ...] = key(
        (), "pixels per axis that each level keeps in the lanes, outermost first; levels left out are plain", least=1
    )


# --- objective ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Translation:
    """Paired translation: the network's output shall equal the target."""

    kind: Literal["translation"] = "translation"
    loss: Literal["l1", "l2", "charbonnier", "psnr", "ssim_l1"] = key(
        "l1", "pixel loss; psnr: minus each image's PSNR in dB; ssim_l1: a mix of 1 - SSIM and L1"
    )
    ssim_share: float = key(0.84, "weight of 1 - SSIM in ssim_l1; L1 has the rest", least=0.0, most=1.0)
    epsilon: float = key(1e-3, "charbonnier: sqrt(d^2 + epsilon^2)", above=0.0)


@dataclass(frozen=True, kw_only=True)
class PatchGan:
    """The discriminator of `adversarial`: one answer per patch of input and output together."""

    receptive_field: Literal[16, 34, 70, 142, 286] = key(70, "side of the patch that one answer sees, in pixels")
    channels: int = key(64, "channels of the first convolution; doubled with each halving, up to eight times", least=1)
    norm: Norm = key("instance", "normalisation")
    groups: int = key(8, "channel groups of group norm (the largest divisor of the channels up to this)", least=1)
    spectral_norm: bool = key(False, "divide each kernel by its largest singular value")
    rate_share: float = key(1.0, "its learning rate over that of the optimizer section", above=0.0)


@dataclass(frozen=True, kw_only=True)
class Adversarial:
    """pix2pix: the output shall equal the target, and look true to a discriminator that is trained beside it."""

    kind: Literal["adversarial"] = "adversarial"
    loss: Literal["vanilla", "least_squares", "hinge"] = key("vanilla", "of the discriminator and of the network that it judges")
    l1_weight: float = key(100.0, "of the L1 distance to the target, beside the 1 of the adversarial loss", least=0.0)
    discriminator: PatchGan = section(PatchGan)


Condition = Literal["none", "image", "class"]
Weighting = Literal["none", "min_snr", "soft_min_snr"]


@dataclass(frozen=True, kw_only=True)
class Flow:
    """Rectified flow: images from noise along straight paths."""

    kind: Literal["flow"] = "flow"
    condition: Condition = key("image", "what decides the picture: the pair's input image, its class (data.classes), or nothing: none")
    condition_dropout: float = key(0.1, "share of the training images whose condition is hidden, for guidance", least=0.0, below=1.0)
    time: Literal["uniform", "logit_normal"] = key("uniform", "distribution of the time in training")
    weighting: Weighting = key("none", "of the error by signal-to-noise ratio; none: the velocity's error as it is")
    gamma: float | None = key(None, "of the weighting (null: 5 for min_snr, 4 for soft_min_snr)", above=0.0)
    sampler: Literal["euler", "heun", "dpmpp_2m"] = key("euler", "how pictures are made; heun calls the network twice per step")
    sampler_steps: int = key(20, "steps per picture", least=1, most=1000)
    guidance: float = key(1.0, "1: none; above: further towards the condition", least=0.0)
    clip: bool = key(True, "the sampler clips its estimates of the image to [-1, 1]")


@dataclass(frozen=True, kw_only=True)
class Diffusion:
    """Denoising diffusion: images from noise, level by level."""

    kind: Literal["diffusion"] = "diffusion"
    condition: Condition = key("none", "what decides the picture: the pair's input image, its class (data.classes), or nothing: none")
    condition_dropout: float = key(0.1, "share of the training images whose condition is hidden, for guidance", least=0.0, below=1.0)
    prediction: Literal["edm", "eps", "x0", "v"] = key(
        "edm", "what the network predicts: under EDM's preconditioning, or noise, image or v"
    )
    schedule: Literal["cosine", "linear", "sigmoid"] = key("cosine", "noise levels of eps, x0 and v")
    sigma_data: float = key(0.5, "edm: standard deviation of the images", above=0.0)
    sigma_mean: float = key(-1.2, "edm: mean of ln sigma in training")
    sigma_spread: float = key(1.2, "edm: standard deviation of ln sigma in training", above=0.0)
    sigma_min: float = key(0.002, "edm: the sampler's least noise", above=0.0)
    sigma_max: float = key(80.0, "edm: the sampler's most noise", above=0.0)
    rho: float = key(7.0, "edm: how much the sampler's steps crowd at little noise", least=1.0)
    weighting: Weighting = key("soft_min_snr", "of the error by signal-to-noise ratio; none: the error of what is predicted")
    gamma: float | None = key(None, "of the weighting (null: 5 for min_snr, 4 for soft_min_snr)", above=0.0)
    sampler: Literal["heun", "dpmpp_2m", "ddim"] = key("heun", "how pictures are made; heun calls the network twice per step")
    sampler_steps: int = key(18, "steps per picture", least=1, most=1000)
    guidance: float = key(1.0, "1: none; above: further towards the condition", least=0.0)
    clip: bool = key(True, "the sampler clips its estimates of the image to [-1, 1]")


# --- the run ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Callback:
    """A Keras callback by name, created with `args` and called at interval ends."""

    use: str = key(help="`package.module:Class` of a keras.callbacks.Callback", pattern=DOTTED_CLASS, form=CLASS_FORM)
    args: dict[str, Any] = dataclasses.field(default_factory=dict, metadata={"help": "its keyword arguments"})


@dataclass(frozen=True, kw_only=True)
class Training:
    """How long, in what batches and in which precision."""

    images: int | None = key(None, "length of the run in images", least=1)
    epochs: float | None = key(None, "length of the run in passes over the training data (instead of images)", above=0.0)
    batch: int | Literal["auto"] = key(
        16, "global batch: images per optimizer step over all devices; auto: the fastest that fits, see docs/tune.md", least=1
    )
    accumulate: int = key(1, "micro-batches whose gradients are summed for one optimizer step", least=1)
    remat: Literal["none", "blocks"] = key("none", "blocks: keep only the blocks' inputs and compute the rest again, for memory")
    lr_scaling: Literal["none", "linear", "sqrt"] = key("none", "learning rate times batch / lr_batch, or its square root")
    lr_batch: int | None = key(None, "global batch that optimizer.learning_rate is meant for", least=1)
    steps_per_call: int = key(8, "optimizer steps per call to the device", least=1)
    ema: float | None = key(None, "decay per step of the averaged copy of the weights (null: no average)", least=0.0, below=1.0)
    ema_warmup: float | None = key(
        None, "power of the average's warm-up: its decay at step n is at most 1 - (1 + n)^-power, as 2/3 (null: none)", above=0.0, most=1.0
    )
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = key("float32", "of the convolutions; the head is always float32")
    sync_batch_norm: bool = key(
        True, "statistics of `norm: batch` in training over a micro-batch of all replicas; false: of each by itself (TensorFlow only)"
    )
    callbacks: tuple[Annotated[Callback, Short("use")], ...] = key((), "further Keras callbacks")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """When the state is saved, and which of the saves are kept."""

    every_images: int | None = key(None, "images between checkpoints (null: a tenth of the run)", least=1)
    keep_last: int = key(2, "how many of the newest checkpoints to keep", least=2)
    keep_best: bool = key(True, "also keep the best checkpoint by `metric`")
    metric: Literal["l1", "psnr", "snr", "ssim"] = key(
        "psnr", "validation metric that decides which is best; ssim for images, snr for signals"
    )


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Pictures of input, output and truth."""

    every_images: int | None = key(None, "images between sample pictures (null: a tenth of the run)", least=1)
    count: int = key(8, "validation images shown", least=0, most=64)


@dataclass(frozen=True, kw_only=True)
class WandB:
    """A run in Weights & Biases beside the run folder; needs the extra `wandb`."""

    project: str = key(help="project that it belongs to")
    entity: str | None = key(None, "team or user (null: your own)")
    group: str | None = key(None, "group of runs that it belongs to")
    tags: tuple[str, ...] = key((), "words to find it by")
    mode: Literal["auto", "offline"] = key(
        "auto", "auto: online where there are credentials, else offline; the variable WANDB_MODE outranks it"
    )
    checkpoint: bool = key(True, "keep the last checkpoint as an artefact")


@dataclass(frozen=True, kw_only=True)
class Logging:
    """What is written down while the run goes on."""

    every_images: int | None = key(None, "images between lines of stats.jsonl (null: a hundredth of the run)", least=1)
    validate_every_images: int | None = key(None, "images between validations (null: a tenth of the run)", least=1)
    samples: Samples = section(Samples)
    wandb: Annotated[WandB, Short("project")] | None = key(None, "log to Weights & Biases too: a project's name, or a section (null: no)")
    tensorboard: bool = key(False, "write TensorBoard events into the run folder too; needs the extra `tensorboard`")


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """On what the run computes."""

    device: Literal["auto", "cpu", "gpu", "tpu"] = key("auto", "auto: the best that is there; a named one that is missing is an error")
    replicas: int | None = key(
        None, "devices to use on each host (null: all of that kind, one on a CPU; more on a CPU are virtual)", least=1
    )
    hosts: int | Literal["auto"] | None = key(
        None,
        "hosts that train together, JAX only (auto: as the cluster says; null: as JAX_NUM_PROCESSES or a TPU pod says, else 1)",
        least=1,
    )
    host: int | None = key(None, "which of the hosts this is, from 0 (null: JAX_PROCESS_ID, or the cluster)", least=0)
    coordinator: str | None = key(
        None,
        "address:port of host 0, a free port there (null: JAX_COORDINATOR_ADDRESS, or the cluster)",
        pattern=r"\S+:\d+",
        form="address:port, as 10.0.0.2:8476",
    )
    host_timeout: int = key(60, "seconds after which a host that does not answer is given up, and the others end", least=5)
    deterministic: bool = key(True, "same recipe, same numbers, bit for bit, on one device")
    jit: Literal["auto", "on", "off"] = key("auto", "compile the step with XLA (auto: on TPU, JAX, and a GPU with deterministic: false)")


@dataclass(frozen=True, kw_only=True)
class Tune:
    """What `batch: auto` and `unetkit tune` may change beside the batch."""

    lowering: bool = key(False, "also try packed levels, at the two fastest batches")
    precision: bool = key(False, "also try mixed_bfloat16")
    remat: bool = key(False, "also try remat: blocks")
    accumulate: bool = key(False, "also try 2 and 4 micro-batches for one step, that is a global batch so many times larger")


@dataclass(frozen=True, kw_only=True)
class Tpu:
    """Analysis by the TPU compiler, and limits that a training run must keep."""

    chip: str | None = key(None, "accelerator to plan for, as v2-8 or v5e-8 (null: the attached one, if any)")
    program: Literal["jax", "tensorflow"] = key("jax", "which engine's step is compiled for the analysis")
    max_padding: float | None = key(None, "refuse to train above this ratio of padded to unpadded peak bytes (1.0 = none)", least=1.0)
    max_hbm: float | None = key(
        None, "refuse to train above this share of the usable HBM (batch: auto: null means 0.95)", above=0.0, most=1.0
    )
    tune: Tune = section(Tune)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that a run is made from."""

    name: str = key(help="name of the run; its default folder is runs/NAME", pattern=FOLDER_NAME, form=NAME_FORM)
    seed: int = key(0, "seed of weights, data order, augmentation, dropout and noise", least=0, most=2**31 - 1)
    backend: Literal["tensorflow", "jax"] = key("tensorflow", "Keras backend that trains")
    data: Data = key(help="where the images come from")
    model: Annotated[UNet | Original, Tagged("preset")] = section(UNet, "the network")
    objective: Annotated[Translation | Adversarial | Flow | Diffusion, Tagged("kind")] = section(Translation, "what is learnt")
    optimizer: Annotated[Adam | AdamW | Sgd | RMSprop | Lion | Lamb | RectifiedAdam | NovoGrad | Lookahead, Tagged("name")] = section(
        Adam, "how the weights follow the gradients"
    )
    training: Training = section(Training)
    checkpoint: Checkpoint = section(Checkpoint)
    logging: Logging = section(Logging)
    hardware: Hardware = section(Hardware)
    tpu: Tpu = section(Tpu)
