"""Why there is no TPU, told from device files, the PCI bus, the library and the environment. The TPU is the one mock: none is here."""

import os

import pytest

from unetkit.errors import UserError
from unetkit.train.tpu_diagnosis import GOOGLE_PCI_VENDOR, diagnose


def machine(root, *, chips=0, files=(), mode=0o666):
    for i in range(chips):
        vendor = root / f"sys/bus/pci/devices/0000:00:0{i}.0/vendor"
        vendor.parent.mkdir(parents=True)
        vendor.write_text(GOOGLE_PCI_VENDOR + "\n")
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=mode)
        path.chmod(mode)
    return root


def test_a_machine_without_a_tpu_says_what_was_looked_for(tmp_path):
    found = diagnose(machine(tmp_path), {})
    assert found.chips == 0
    with pytest.raises(UserError, match=r"(?s)/dev/accel.*libtpu.*Run on a Cloud TPU VM"):
        found.require()


def test_chips_without_device_files_point_to_a_container_without_privileges(tmp_path):
    with pytest.raises(UserError, match="--privileged"):
        diagnose(machine(tmp_path, chips=4), {"TPU_LIBRARY_PATH": "x"}).require()


def test_forbidden_device_files_are_named(tmp_path, monkeypatch):
    machine(tmp_path, chips=1, files=("dev/accel0",), mode=0o000)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may open anything, so the answer is given here
    with pytest.raises(UserError, match=r"No permission to open /dev/accel0"):
        diagnose(tmp_path, {"TPU_LIBRARY_PATH": "x"}).require()


def test_a_whole_machine_passes(tmp_path):
    found = diagnose(machine(tmp_path, chips=4, files=("dev/vfio/vfio", "dev/vfio/0")), {"TPU_LIBRARY_PATH": "x", "TPU_NAME": "local"})
    found.require()
    assert found.files == ("/dev/vfio/0",)
    assert found.variables == ("TPU_NAME", "TPU_LIBRARY_PATH")
