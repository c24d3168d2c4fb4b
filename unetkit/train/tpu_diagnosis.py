"""Why is there no TPU? Looks without touching one: device files, the PCI bus, the library, the environment."""

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unetkit.errors import UserError

GOOGLE_PCI_VENDOR = "0x1ae0"
VARIABLES = ("TPU_NAME", "TPU_WORKER_ID", "TPU_ACCELERATOR_TYPE", "PJRT_DEVICE", "TPU_LIBRARY_PATH")


@dataclass(frozen=True)
class Diagnosis:
    """What was found. `files` are the device files, `forbidden` those this process may not open, `chips` the TPUs on the bus."""

    files: tuple[str, ...]
    forbidden: tuple[str, ...]
    chips: int
    library: bool
    variables: tuple[str, ...]

    def require(self) -> None:
        """Raises a UserError with what was looked for and the likely remedy, unless a TPU can be used."""
        if self.chips and self.files and not self.forbidden and self.library:
            return
        seen = [
            f"PCI devices of vendor {GOOGLE_PCI_VENDOR}: {self.chips}",
            f"device files /dev/accel*, /dev/vfio/*: {', '.join(self.files) or 'none'}",
            f"library libtpu: {'installed' if self.library else 'not installed'}",
            f"environment: {', '.join(self.variables) or f'none of {chr(44).join(VARIABLES)}'}",
        ]
        if not self.chips:
            remedy = "This machine has no TPU. Run on a Cloud TPU VM, or use device: auto."
        elif not self.files:
            remedy = "The chips are there but their device files are not: in a container, start it with --privileged --net=host."
        elif self.forbidden:
            remedy = f"No permission to open {', '.join(self.forbidden)}: run as root, or the container with --privileged."
        else:
            remedy = "Install the TPU library: pip install 'unetkit[tpu]' (TensorFlow) or 'unetkit[tpu-jax]' (JAX)."
        raise UserError("hardware.device: no usable TPU. Looked for:\n" + "\n".join(f"  {line}" for line in seen) + f"\n{remedy}")


def diagnose(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> Diagnosis:
    """Looks for a TPU under `root` (another one in tests), in well under a second."""
    files = sorted(p for p in [*root.glob("dev/accel*"), *root.glob("dev/vfio/*")] if p.name != "vfio")
    vendors = [p.read_text().strip() for p in root.glob("sys/bus/pci/devices/*/vendor")]
    return Diagnosis(
        files=tuple(f"/{p.relative_to(root)}" for p in files),
        forbidden=tuple(f"/{p.relative_to(root)}" for p in files if not os.access(p, os.R_OK | os.W_OK)),
        chips=vendors.count(GOOGLE_PCI_VENDOR),
        library=importlib.util.find_spec("libtpu") is not None or "TPU_LIBRARY_PATH" in environment,
        variables=tuple(name for name in VARIABLES if name in environment),
    )
