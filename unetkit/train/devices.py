"""Which devices train: one, several GPUs, virtual CPUs or a TPU. A device that was named and is not there is an error."""

import functools
import os
from dataclasses import dataclass, field, replace
from typing import Any

from unetkit.errors import UserError
from unetkit.recipe.schema import Hardware
from unetkit.train.hosts import Hosts, open_hosts
from unetkit.train.tpu_diagnosis import diagnose


@dataclass(frozen=True)
class Devices:
    """What was chosen. `handle` is a `tf.distribute.Strategy`, or a `jax.sharding.Mesh` with the one axis `batch`.

    `replicas` are those of all hosts together.
    """

    kind: str
    replicas: int
    handle: Any
    note: str
    hosts: Hosts = field(default_factory=Hosts)


def open_devices(hardware: Hardware, backend: str) -> Devices:
    """Opens the devices that `hardware` asks for. Call it before anything else touches the backend.

    Raises:
        UserError: the device is not there (with what was looked for), or there are fewer than `replicas`.
    """
    if hardware.device == "tpu" or (hardware.device == "auto" and diagnose().chips):
        diagnose().require(backend)
    if backend == "tensorflow":
        open_hosts(hardware, backend)
        return _tensorflow(hardware)
    return _jax(hardware)


def use_jit(hardware: Hardware, devices: Devices, backend: str) -> bool:
    """Whether the step is compiled with XLA. TensorFlow's own kernels are the default on a CPU, and where a GPU must repeat itself."""
    if hardware.jit != "auto":
        return hardware.jit == "on"
    return backend == "jax" or devices.kind == "tpu" or (devices.kind == "gpu" and not hardware.deterministic)


def _tensorflow(hardware: Hardware) -> Devices:
    import tensorflow as tf

    if hardware.deterministic and hardware.jit != "on":  # with it, XLA refuses max-pool's gradient; XLA on a CPU repeats itself anyway
        tf.config.experimental.enable_op_determinism()
        tf.random.set_seed(0)  # required beside it; every random number of the step carries its own key
    asked = hardware.device
    if asked in ("tpu", "auto") and diagnose().chips:
        from unetkit.train.tpu_strategy import open_strategy

        strategy = open_strategy()
        return _described("tpu", strategy.num_replicas_in_sync, strategy, asked)
    gpus = tf.config.list_physical_devices("GPU")
    if asked in ("gpu", "auto") and gpus:
        count = _count(hardware.replicas, len(gpus), "gpu")
        tf.config.set_visible_devices(gpus[:count], "GPU")
        strategy = tf.distribute.get_strategy() if count == 1 else _mirrored("GPU", count)
        return _described("gpu", count, strategy, asked)
    if asked == "gpu":
        raise UserError(
            "hardware.device: gpu, but TensorFlow sees none. "
            "Install `unetkit[gpu]` and a driver that `nvidia-smi` sees, or use device: auto."
        )
    count = hardware.replicas or 1
    if count == 1:
        return _described("cpu", 1, tf.distribute.get_strategy(), asked)
    if len(tf.config.list_logical_devices("CPU") if _initialised(tf) else []) < count:
        cpu = tf.config.list_physical_devices("CPU")[0]
        try:
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
        except RuntimeError as error:
            raise UserError(
                f"hardware.replicas: {count} virtual CPUs must be made before TensorFlow is used in this process. Start a new one."
            ) from error
    return _described("cpu", count, _mirrored("CPU", count), asked)


@functools.cache
def _mirrored(kind: str, count: int) -> Any:
    """One strategy per process: a second one would number its collectives from the start again, and meet those of the first."""
    import tensorflow as tf

    return tf.distribute.MirroredStrategy([f"{kind}:{i}" for i in range(count)])


def _initialised(tf) -> bool:
    from tensorflow.python.eager import context  # no public way to ask whether virtual devices can still be made

    return context.context()._initialized


def _jax(hardware: Hardware) -> Devices:
    import jax
    import numpy as np

    asked = hardware.device
    if asked in ("auto", "cpu") and hardware.replicas:
        # Virtual CPUs must be asked for before JAX starts; where it has started, the count below says what is missing.
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={hardware.replicas}".strip()
    hosts = open_hosts(hardware, "jax")
    try:
        found = jax.devices() if asked == "auto" else jax.devices(asked)
    except RuntimeError as error:
        raise UserError(f"hardware.device: {asked}, but JAX finds none: {str(error).splitlines()[0]}. Use device: auto.") from error
    kind = found[0].platform
    by_host = [[d for d in found if d.process_index == index] for index in range(hosts.count)]
    count = _count(hardware.replicas or (1 if kind == "cpu" else None), min(map(len, by_host)), kind)
    mesh = jax.sharding.Mesh(np.array([device for own in by_host for device in own[:count]]), ("batch",))
    chosen = _described(kind, count * hosts.count, mesh, asked)
    return replace(chosen, hosts=hosts, note=chosen.note + hosts.note)


def _count(asked: int | None, found: int, kind: str) -> int:
    if asked is not None and asked > found:
        raise UserError(f"hardware.replicas: {asked}, but there are {found} {kind} devices.")
    return asked or found


def _described(kind: str, count: int, handle: Any, asked: str) -> Devices:
    chosen = f"{count} x {kind}" if count > 1 else kind
    return Devices(kind, count, handle, f"device: {chosen}" + (" (chosen by device: auto)" if asked == "auto" else ""))
