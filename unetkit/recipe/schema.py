"""The recipe as frozen dataclasses: every key, its type, its default, its bounds and one line of help.

Defaults live here (those of the larger sections in the schemas beside this file) and nowhere else. A field is declared with
`key(...)`, whose metadata `kinds.py` turns into what the strict reader, the JSON Schema and the table of keys walk. Three conventions
carry the whole format:

* A union of sections is told apart by one *tag* key (`Tagged`): `data.source.kind`, `model.preset`, `objective.kind`,
  `optimizer.name`. A bare word is short for the section with that tag and every default: `source: emoji`.
* `None` always means "decided later from the rest of the recipe", and the help text says how.
* Lengths count images, never steps, so a change of batch leaves the schedule alone.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from unetkit.recipe.data_schema import Augment as Augment
from unetkit.recipe.data_schema import Colorize as Colorize
from unetkit.recipe.data_schema import Data as Data
from unetkit.recipe.data_schema import Denoise as Denoise
from unetkit.recipe.data_schema import Emoji as Emoji
from unetkit.recipe.data_schema import Folder as Folder
from unetkit.recipe.data_schema import Inpaint as Inpaint
from unetkit.recipe.data_schema import Pairs as Pairs
from unetkit.recipe.data_schema import SideBySide as SideBySide
from unetkit.recipe.data_schema import Sound as Sound
from unetkit.recipe.data_schema import SoundPairs as SoundPairs
from unetkit.recipe.data_schema import Split as Split
from unetkit.recipe.data_schema import SuperResolve as SuperResolve
from unetkit.recipe.data_schema import Synthetic as Synthetic
from unetkit.recipe.data_schema import Tones as Tones
from unetkit.recipe.declare import CLASS_FORM, DOTTED_CLASS, FOLDER_NAME, NAME_FORM, Short, Tagged, key, section
from unetkit.recipe.model_schema import Level as Level
from unetkit.recipe.model_schema import Original as Original
from unetkit.recipe.model_schema import UNet as UNet
from unetkit.recipe.objective_schema import Adversarial as Adversarial
from unetkit.recipe.objective_schema import Diffusion as Diffusion
from unetkit.recipe.objective_schema import Flow as Flow
from unetkit.recipe.objective_schema import PatchGan as PatchGan
from unetkit.recipe.objective_schema import Translation as Translation
from unetkit.recipe.optimizer_schema import Adam as Adam
from unetkit.recipe.optimizer_schema import AdamW as AdamW
from unetkit.recipe.optimizer_schema import Lamb as Lamb
from unetkit.recipe.optimizer_schema import Lion as Lion
from unetkit.recipe.optimizer_schema import Lookahead as Lookahead
from unetkit.recipe.optimizer_schema import NovoGrad as NovoGrad
from unetkit.recipe.optimizer_schema import RectifiedAdam as RectifiedAdam
from unetkit.recipe.optimizer_schema import RMSprop as RMSprop
from unetkit.recipe.optimizer_schema import Sgd as Sgd


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
