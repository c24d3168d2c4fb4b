"""Several hosts as one: who takes part, which share is whose, and what all of them must agree on.

The runtime is JAX's own (`jax.distributed`): every host runs the same program, and what it computes is one program over all
devices. This room only adds what JAX leaves to the caller: that hosts agree on facts, and end together.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unetkit.errors import LimitError, UnetkitError, UserError, WorkError
from unetkit.recipe.schema import Hardware

COUNT, INDEX = ("JAX_NUM_PROCESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES"), ("JAX_PROCESS_ID", "KERAS_DISTRIBUTION_PROCESS_ID")
COORDINATOR = ("JAX_COORDINATOR_ADDRESS", "KERAS_DISTRIBUTION_JOB_ADDRESSES")
NOT_TENSORFLOW = (
    "TensorFlow trains on one host here: MultiWorkerMirroredStrategy fails with Keras 3 (keras-team/keras issue 20585), and a TPU pod "
    "needs a TensorFlow server on every other worker, whose 2.19 image hangs as it connects (tensorflow/tensorflow issue 93618). "
    "JAX trains the same recipe on many: --set backend=jax. Its checkpoints resume on either."
)
LOST = "The last checkpoint stands. Start the same command on all hosts again, on as many as there are: it resumes from there."
# What the runtime's errors say when another host is gone.
GONE = ("Gloo", "gloo", "coordination", "Coordination", "heartbeat", "UNAVAILABLE", "Connection reset", "Socket closed")

_watchers: list[subprocess.Popen[str]] = []

WATCHER = """
import sys
told = sys.stdin.readline()
if sys.stdin.readline() != "done\\n":
    print(told.rstrip(), file=sys.stderr, flush=True)
"""


@dataclass(frozen=True)
class Hosts:
    """`count` processes that train together, of which this is number `index`; by default one that is alone."""

    count: int = 1
    index: int = 0

    @property
    def first(self) -> bool:
        """Whether this is the one that writes."""
        return self.index == 0

    @property
    def note(self) -> str:
        """For the log."""
        return f" on {self.count} hosts" if self.count > 1 else ""

    def rows(self, batch: int, accumulate: int) -> list[int]:
        """Which rows of a global batch this host reads: its share of each micro-batch."""
        micro = batch // accumulate
        share = micro // self.count
        return [m * micro + self.index * share + row for m in range(accumulate) for row in range(share)]

    def everyones(self, value: Any) -> list[Any]:
        """What each host passes, as JSON keeps it, in the order of hosts. All of them have to call it."""
        if self.count == 1:
            return [value]
        from jax.experimental import multihost_utils

        text = np.frombuffer(json.dumps(value).encode(), np.uint8)
        lengths = np.ravel(multihost_utils.process_allgather(np.array([len(text)], np.int32)))
        filled = np.zeros(int(lengths.max()), np.uint8)
        filled[: len(text)] = text
        table = np.reshape(multihost_utils.process_allgather(filled), (self.count, -1))
        return [json.loads(row[:length].tobytes()) for row, length in zip(table, lengths, strict=True)]

    def most(self, number: int) -> int:
        """The largest of what the hosts pass."""
        if self.count == 1:
            return number
        from jax.experimental import multihost_utils

        return int(np.max(multihost_utils.process_allgather(np.array([number], np.int32))))

    def agree(self, make: Callable[[], Any]) -> Any:
        """What `make` returns on the first host, on every host; only the first calls it.

        Raises:
            UnetkitError: `make` raised it; on the other hosts with the first one's words.
        """
        if self.count == 1:
            return make()
        said: dict[str, Any] = {}
        failed: UnetkitError | None = None
        if self.first:
            try:
                said = {"value": make()}
            except UnetkitError as error:
                failed, said = error, {"error": str(error), "status": error.status}
        answer = self.everyones(said)[0]
        if failed is not None:
            raise _agreed(failed)
        if "error" in answer:
            kinds: dict[int, type[UnetkitError]] = {1: WorkError, 2: UserError, 3: LimitError}
            raise _agreed(kinds[answer["status"]](f"host 0 of {self.count}: {answer['error']}"))
        return answer["value"]

    def require_same(self, what: str, facts: Mapping[str, Any]) -> None:
        """Refuses hosts that see different things.

        Raises:
            UserError: on all of them; names the first that differs.
        """
        seen = self.everyones(dict(facts))
        for index, other in enumerate(seen):
            if other != seen[0]:
                words = [", ".join(f"{name} {value}" for name, value in side.items()) for side in (other, seen[0])]
                raise _agreed(UserError(f"host {index} has other {what} than host 0: {words[0]}; there {words[1]}. Give all the same."))

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """While it is open, a host that fails lets the others know at once, and one whose others are gone says so.

        Raises:
            WorkError: another host has ended.
        """
        if self.count == 1:
            yield
            return
        try:
            yield
        except UnetkitError as error:
            if not getattr(error, "agreed", False):  # the others wait for this one: they must see it go
                _end_at_once(error.status)
            raise
        except Exception as error:
            _end_at_once(WorkError.status)
            if any(word in str(error) for word in GONE):
                raise WorkError(f"host {self.index} of {self.count}: another host has ended (its own messages say why). {LOST}") from error
            raise


def weighted_mean(found: Sequence[tuple[Mapping[str, float], int]]) -> dict[str, float]:
    """The mean of what hosts found, each over so many samples."""
    some = [(values, count) for values, count in found if count]
    if len(some) == 1:
        return dict(some[0][0])
    total = sum(count for _, count in some)
    return {name: sum(values[name] * count for values, count in some) / total for name in some[0][0]}


def open_hosts(hardware: Hardware, backend: str) -> Hosts:
    """Joins the hosts that the recipe, the environment or the cluster names. Call it before anything else touches the backend.

    Raises:
        UserError: several hosts with TensorFlow, or it is not said where the first one is and which this is.
        WorkError: they did not meet within `hardware.host_timeout` seconds.
    """
    count = hardware.hosts if hardware.hosts is not None else _number(COUNT)
    if count is None and len(os.environ.get("TPU_WORKER_HOSTNAMES", "").split(",")) > 1:
        count = "auto"  # a worker of a TPU pod: a part of it cannot be opened alone
    if count in (None, 1):
        return Hosts()
    if backend == "tensorflow":
        raise UserError(f"hardware.hosts: {NOT_TENSORFLOW}")
    index = hardware.host if hardware.host is not None else _number(INDEX)
    address = hardware.coordinator or next((os.environ[name].split(",")[0] for name in COORDINATOR if os.environ.get(name)), None)
    if not isinstance(count, int):
        return _join(None, index, address, hardware.host_timeout)
    if address is None or index is None:
        missing = ["coordinator (address:port of host 0)"] * (address is None) + ["host (0, 1, ...)"] * (index is None)
        raise UserError(
            f"hardware.hosts: {count}, but hardware.{' and hardware.'.join(missing)} is not given. Set it in the environment "
            f"({COORDINATOR[0]}, {INDEX[0]}) or with --set, or use hosts: auto on a TPU pod, Slurm, MPI or Kubernetes."
        )
    if index >= count:
        raise UserError(f"hardware.host: {index}, but {count} hosts are numbered 0 to {count - 1}.")
    return _join(count, index, address, hardware.host_timeout)


def _join(count: int | None, index: int | None, address: str | None, timeout: int) -> Hosts:
    import jax

    if jax.distributed.is_initialized():  # by an earlier run of this process
        return Hosts(jax.process_count(), jax.process_index())
    jax.config.update("jax_enable_preemption_service", False)  # it would take SIGTERM, which stops and saves here
    who = "the cluster" if count is None else f"{count} hosts at {address}"
    try:
        jax.distributed.initialize(
            address,
            count,
            index,
            cluster_detection_method="deactivate" if count else None,
            initialization_timeout=timeout,
            heartbeat_timeout_seconds=timeout,
            shutdown_timeout_seconds=timeout,
        )
    except ValueError as error:
        raise UserError(
            f"hardware.hosts: auto, but JAX recognises no cluster here ({error}). Give hardware.hosts, hardware.host and "
            "hardware.coordinator, or hosts: 1."
        ) from error
    except RuntimeError as error:
        if "must be called before" in str(error):
            raise UserError("hardware.hosts: JAX has been used in this process already. Start a new one.") from error
        _end_at_once(WorkError.status)
        reason = str(error).splitlines()[0]
        raise WorkError(f"hardware.hosts: {who} did not meet within {timeout} s: {reason}") from error
    hosts = Hosts(jax.process_count(), jax.process_index())
    if hosts.count > 1:
        _watch(hosts, timeout)
    return hosts


def _watch(hosts: Hosts, timeout: int) -> None:
    """Has a small process wait for this one's end. The runtime aborts where another host is gone, and leaves no time for words."""
    words = (
        f"unetkit: host {hosts.index} of {hosts.count} has ended before the run did, or was ended because another host had "
        f"(within {timeout} s). {LOST}"
    )
    watcher = subprocess.Popen([sys.executable, "-S", "-c", WATCHER], stdin=subprocess.PIPE, text=True, start_new_session=True)
    stdin = watcher.stdin
    assert stdin is not None
    stdin.write(words + "\n")
    stdin.flush()

    _watchers.append(watcher)
    atexit.register(_dismiss)


def _dismiss() -> None:
    """Tells the watcher that this process ends with words of its own."""
    while _watchers:
        watcher = _watchers.pop()
        with contextlib.suppress(OSError):
            watcher.communicate("done\n")


def _end_at_once(status: int) -> None:
    """Leaves at exit without the runtime's farewell, for which it would wait for hosts that are gone or wait for this one."""

    def leave() -> None:
        _dismiss()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(status)

    atexit.register(leave)


def _agreed(error: UnetkitError) -> UnetkitError:
    """Marks an error that every host raises."""
    error.agreed = True  # type: ignore[attr-defined]
    return error


def _number(names: tuple[str, ...]) -> int | None:
    """The first of the environment's variables that is set, as a number."""
    for name in names:
        if text := os.environ.get(name):
            if not text.isdecimal():
                raise UserError(f"the environment's {name} is {text!r}; expected a whole number, as 0 or 4.")
            return int(text)
    return None
