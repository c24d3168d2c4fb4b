"""Why there is no TPU, told from device files, the PCI bus, the library and the environment. The TPU is the one mock: none is here."""

import os
import subprocess
import sys

import pytest

from unetkit.errors import UserError
from unetkit.train.tpu_diagnosis import GOOGLE_PCI_VENDOR, diagnose


def machine(root, *, chips=0, files=(), mode=0o666, device="0x0063"):
    for i in range(chips):
        vendor = root / f"sys/bus/pci/devices/0000:00:0{i}.0/vendor"
        vendor.parent.mkdir(parents=True)
        vendor.write_text(GOOGLE_PCI_VENDOR + "\n")
        vendor.with_name("device").write_text(device + "\n")
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
    root = machine(tmp_path, chips=4, files=("dev/vfio/vfio", "dev/vfio/0"))
    found = diagnose(root, {"TPU_LIBRARY_PATH": "x", "TPU_NAME": "local"}, {})
    found.require()
    assert found.files == ("/dev/vfio/0",)
    assert found.variables == ("TPU_NAME", "TPU_LIBRARY_PATH")


def test_googles_network_card_is_no_tpu(tmp_path):
    """Every newer Compute Engine machine has one (gVNIC, 1ae0:0042)."""
    assert diagnose(machine(tmp_path, chips=1, device="0x0042"), {}).chips == 0


def test_a_container_without_privileges_is_named_as_such(tmp_path):
    (tmp_path / ".dockerenv").touch()
    with pytest.raises(UserError, match=r"(?s)in a container.*this container has no privileges; start it with --privileged --net=host"):
        diagnose(machine(tmp_path, chips=4), {}, {"libtpu": "0.0.10"}).require()


def test_a_busy_tpu_names_the_process_that_holds_it(tmp_path):
    machine(tmp_path, chips=1, files=("dev/accel0",))
    code = f"held = open({str(tmp_path / 'dev/accel0')!r}); print('open', flush=True); input()"
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "open\n"
    with pytest.raises(UserError, match=f"In use by process {holder.pid}: .*kill {holder.pid}"):
        diagnose(tmp_path, {}, {"libtpu": "0.0.10"}).require()
    holder.communicate("\n")
    diagnose(tmp_path, {}, {"libtpu": "0.0.10"}).require()


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ({"tensorflow-tpu": "2.20.0", "libtpu": "0.0.52"}, r"tensorflow-tpu 2.20.0 does not work with libtpu 0.0.52.*libtpu==0.0.21"),
        ({"tensorflow-tpu": "2.19.1", "libtpu": "0.0.21"}, r"libtpu==0.0.10"),
        ({"tensorflow-tpu": "2.19.1", "libtpu": "0.0.10", "keras": "3.12.0"}, r"keras 3.12.0 is too old"),
        ({"tensorflow-tpu": "2.19.1", "tensorflow-cpu": "2.21.0", "libtpu": "0.0.10"}, r"installed over each other"),
        ({"tensorflow-cpu": "2.21.0", "libtpu": "0.0.42.1"}, r"tensorflow-cpu has no TPU kernels.*backend: jax"),
        ({}, r"Install the TPU library"),
    ],
)
def test_packages_that_do_not_fit_together_are_told_with_the_command_that_mends_them(tmp_path, versions, words):
    machine(tmp_path, chips=4, files=("dev/accel0",))
    with pytest.raises(UserError, match=words):
        diagnose(tmp_path, {}, versions).require("tensorflow")


FIT = [{"tensorflow-tpu": "2.19.1", "libtpu": "0.0.10", "keras": "3.15.1"}, {"jax": "0.10.2", "libtpu": "0.0.42.1"}]


@pytest.mark.parametrize("versions", FIT, ids=["tensorflow", "jax"])
def test_packages_that_fit_pass(tmp_path, versions):
    machine(tmp_path, chips=4, files=("dev/accel0",))
    diagnose(tmp_path, {}, versions).require("jax" if "jax" in versions else "tensorflow")


@pytest.mark.parametrize(("device", "newer"), [("0x0027", False), ("0x005e", False), ("0x0063", True), ("0x006f", True)])
def test_tensorflow_is_told_of_the_newer_runtime_only_where_such_a_tpu_is(tmp_path, device, newer):
    assert ("PJRT_DEVICE" in diagnose(machine(tmp_path, chips=4, device=device), {}, {}).runtime()) == newer
    assert diagnose(tmp_path / "elsewhere", {}, {}).runtime() == {}
