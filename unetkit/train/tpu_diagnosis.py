"""Why is there no TPU? Looks without touching one: device files, the PCI bus, who holds it, the packages, the environment."""

import importlib.metadata
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unetkit.errors import UserError

GOOGLE_PCI_VENDOR = "0x1ae0"
# PCI device -> generation, as JAX has them (jax/_src/hardware_utils.py). Google's network cards carry the same vendor.
GENERATIONS = {"0x0027": "v2 or v3", "0x0056": "", "0x005e": "v4", "0x0062": "v5p", "0x0063": "v5e", "0x006f": "v6e", "0x0076": "tpu7x"}
VARIABLES = ("TPU_NAME", "TPU_WORKER_ID", "TPU_ACCELERATOR_TYPE", "PJRT_DEVICE", "TPU_LIBRARY_PATH")
PACKAGES = ("tensorflow-tpu", "tensorflow", "tensorflow-cpu", "jax", "libtpu", "keras")
# tensorflow-tpu -> the libtpu releases that it loads with; with later ones `import tensorflow` aborts the process.
LIBTPU = {"2.18.0": ("2.18.0",), "2.19.1": ("0.0.10",), "2.20.0": ("0.0.21", "0.0.14", "0.0.17", "0.0.19", "0.0.24")}
KERAS = (3, 15, 1)
# What a TPU runtime needs to know before TensorFlow is imported, from v5e on (keras.io's TPU example). Without a TPU they abort it.
PJRT = {
    "PJRT_DEVICE": "TPU",
    "NEXT_PLUGGABLE_DEVICE_USE_C_API": "true",
    "TF_XLA_FLAGS": "--tf_mlir_enable_mlir_bridge=true --tf_mlir_enable_convert_control_to_data_outputs_pass=true "
    "--tf_mlir_enable_merge_control_flow_pass=true",
}


@dataclass(frozen=True)
class Diagnosis:
    """What was found.

    Attributes:
        files: the device files; `forbidden` are those this process may not open.
        chips: TPUs on the PCI bus; `generation` is theirs.
        library: whether libtpu is there.
        variables: the TPU's variables that the environment has.
        holders: processes that have a device file open.
        container: whether this process lives in one.
        versions: of the packages that take part, as far as they are installed.
    """

    files: tuple[str, ...]
    forbidden: tuple[str, ...]
    chips: int
    library: bool
    variables: tuple[str, ...]
    generation: str = ""
    holders: tuple[int, ...] = ()
    container: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)

    def require(self, backend: str | None = None) -> None:
        """Raises a UserError with what was looked for and the likely remedy, unless a TPU can be used (by `backend`)."""
        remedy = self._remedy(backend)
        if remedy is None:
            return
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        variables = ", ".join(self.variables) or f"none of {','.join(VARIABLES)}"
        seen = [
            f"TPUs among the PCI devices of vendor {GOOGLE_PCI_VENDOR}: {self.chips}{self.generation and f' ({self.generation})'}",
            f"device files /dev/accel*, /dev/vfio/*: {', '.join(self.files) or 'none'}",
            f"library libtpu: {'installed' if self.library else 'not installed'}{versions and f' ({versions})'}",
            f"environment: {variables}{', in a container' if self.container else ''}",
        ]
        raise UserError("hardware.device: no usable TPU. Looked for:\n" + "\n".join(f"  {line}" for line in seen) + f"\n{remedy}")

    def _remedy(self, backend: str | None) -> str | None:
        if not self.chips:
            return "This machine has no TPU. Run on a Cloud TPU VM, or use device: auto."
        privileged = "start it with --privileged --net=host"
        if not self.files:
            if self.container:
                return f"The chips are there but their device files are not: this container has no privileges; {privileged}."
            return f"The chips are there but their device files are not: in a container, {privileged}; else reboot the TPU VM."
        if self.forbidden:
            remedy = privileged if self.container else "run as root, or the container with --privileged"
            return f"No permission to open {', '.join(self.forbidden)}: {remedy}."
        if self.holders:
            listed = ", ".join(map(str, self.holders))
            return f"In use by process {listed}: a TPU serves one at a time. Wait for it, or stop it: kill {listed.replace(',', '')}."
        if not self.library:
            return "Install the TPU library: pip install 'unetkit[tpu]' (TensorFlow) or 'unetkit[tpu-jax]' (JAX)."
        return self._mismatch(backend)

    def _mismatch(self, backend: str | None) -> str | None:
        """What does not fit together among the installed packages, and the remedy."""
        has = self.versions
        keras = has.get("keras")
        if keras and tuple(int(part) for part in keras.split(".")[:3] if part.isdecimal()) < KERAS:
            return f"keras {keras} is too old: pip install 'keras>=3.15.1,<3.16'."
        tensorflow, plain = has.get("tensorflow-tpu"), next((name for name in ("tensorflow", "tensorflow-cpu") if name in has), None)
        if tensorflow and plain:
            return f"tensorflow-tpu and {plain} are installed over each other: pip uninstall both, then pip install 'unetkit[tpu]'."
        if tensorflow and "libtpu" in has:
            good = LIBTPU.get(tensorflow)
            if good and has["libtpu"] not in good:
                return (
                    f"tensorflow-tpu {tensorflow} does not work with libtpu {has['libtpu']}: `import tensorflow` aborts. "
                    f"pip install libtpu=={good[0]}."
                )
        if backend == "tensorflow" and not tensorflow and plain:
            return f"{plain} has no TPU kernels: pip uninstall {plain}; pip install 'unetkit[tpu]'. Or 'unetkit[tpu-jax]' and backend: jax."
        if backend == "tensorflow" and self.generation == "tpu7x":
            return "TensorFlow does not support this TPU: use backend: jax (pip install 'unetkit[tpu-jax]')."
        return None

    def runtime(self) -> dict[str, str]:
        """Variables that TensorFlow's TPU runtime wants before its import: none on v2, v3 and v4, whose runtime is older."""
        if not self.chips or self.generation not in ("v5p", "v5e", "v6e"):
            return {}
        place = importlib.metadata.distribution("libtpu").locate_file("libtpu/libtpu.so") if "libtpu" in self.versions else ""
        return {**PJRT, "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": str(place)} if place else dict(PJRT)


def diagnose(root: Path = Path("/"), environment: Mapping[str, str] = os.environ, versions: Mapping[str, str] | None = None) -> Diagnosis:
    """Looks for a TPU under `root` (another one in tests), in well under a second; `versions`: of packages, by default the installed."""
    installed = _installed() if versions is None else versions
    files = sorted(p for p in [*root.glob("dev/accel*"), *root.glob("dev/vfio/*")] if p.name != "vfio")
    found = [generation for generation in map(_generation, root.glob("sys/bus/pci/devices/*")) if generation is not None]
    return Diagnosis(
        files=tuple(f"/{p.relative_to(root)}" for p in files),
        forbidden=tuple(f"/{p.relative_to(root)}" for p in files if not os.access(p, os.R_OK | os.W_OK)),
        chips=len(found),
        library="libtpu" in installed or "TPU_LIBRARY_PATH" in environment,
        variables=tuple(name for name in VARIABLES if name in environment),
        generation=found[0] if found else "",
        holders=_holders(files),
        container=any((root / name).exists() for name in (".dockerenv", "run/.containerenv")),
        versions=installed,
    )


def _generation(device: Path) -> str | None:
    """The generation of a PCI device that is a TPU; None for any other."""
    try:
        vendor, kind = ((device / name).read_text().strip() for name in ("vendor", "device"))
    except OSError:
        return None
    return GENERATIONS.get(kind) if vendor == GOOGLE_PCI_VENDOR else None


def _holders(files: list[Path]) -> tuple[int, ...]:
    """Other processes that have one of the files open, as far as this one may see."""
    wanted, holders = {str(file) for file in files}, set()
    for link in Path("/proc").glob("[0-9]*/fd/*") if wanted else ():
        try:
            if os.readlink(link) in wanted:
                holders.add(int(link.parts[2]))
        except OSError:  # it has closed it, or belongs to somebody else
            continue
    return tuple(sorted(holders - {os.getpid()}))


def _installed() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
