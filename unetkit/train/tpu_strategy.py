"""TensorFlow on a TPU, in one place: the runtime, the strategy, how a batch reaches the replicas, and what one call does.

* Runtime: `Diagnosis.runtime` says what the environment must hold before TensorFlow is imported; `fit` sets it.
* Strategy: `open_strategy`, one host, one replica per device that `TPUStrategy` sees.
* Input: `distribute`, a value per replica of one static shape. The data stay NumPy on the host until a call hands them over.
* `steps_per_call`: on a TPU the loop over a call's steps runs inside `strategy.run`, so that a call is one program and the host
  is not asked between steps. MirroredStrategy's replicas meet in Python while they are traced, which they cannot inside of a
  loop: there, and on one device, the loop lies around `strategy.run`.

What runs inside `strategy.run` is compiled for TPUs by the tests, one replica's part of it; `strategy.run` itself was not run on a TPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from unetkit.errors import WorkError


def open_strategy() -> tf.distribute.TPUStrategy:
    """Starts this host's TPU and gives the strategy over all of its replicas.

    Raises:
        WorkError: TensorFlow found no TPU although one is there: it would have gone on with the CPU.
    """
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu="local")
    tf.tpu.experimental.initialize_tpu_system(resolver)
    if not tf.config.list_logical_devices("TPU"):
        raise WorkError(
            "hardware.device: the TPU is there, but TensorFlow sees only a CPU. Another process may hold it (a stale /tmp/libtpu_lockfile "
            "too: remove it where no other process runs), or tensorflow-tpu and libtpu do not fit: unetkit doctor."
        )
    return tf.distribute.TPUStrategy(resolver)


def loops_inside(strategy: tf.distribute.Strategy) -> bool:
    """Whether the loop over the steps of a call belongs inside `strategy.run`."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def distribute(strategy: tf.distribute.Strategy, parts: Sequence[np.ndarray]):
    """One array per replica as what `strategy.run` takes."""
    if len(parts) == 1:
        return tf.constant(parts[0])
    return strategy.experimental_distribute_values_from_function(lambda c: tf.constant(parts[c.replica_id_in_sync_group]))
