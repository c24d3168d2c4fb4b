"""The TensorFlow engine: one `tf.function` that loops over steps and calls `strategy.run`, on one device, several, or a TPU.

Keras' own `fit` is not used: under two replicas its `steps_per_execution`, gradient accumulation and `jit_compile` fail,
dropout repeats on every replica, and raw losses come from replica 0 (docs/architecture.md).
"""

from collections.abc import Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from unetkit.errors import UserError
from unetkit.objectives import Objective
from unetkit.train.engines.base import Engine, Options, averages, decay_at
from unetkit.train.step import Place, Step, Weights, add, is_seed
from unetkit.train.tpu_strategy import distribute, loops_inside


def differentiate(function, weights: Weights):
    """Gradients of each role's loss with respect to that role's weights."""
    with tf.GradientTape(persistent=len(weights) > 1, watch_accessed_variables=False) as tape:
        tape.watch(weights)
        losses, rest = function(weights)
    gradients = {role: tape.gradient(losses[role], weights[role], unconnected_gradients="zero") for role in weights}
    return (losses, rest), gradients


def tensors(variables: Sequence[keras.Variable]) -> list[tf.Tensor]:
    """This replica's values of Keras variables."""
    return [tf.convert_to_tensor(v.value) for v in variables]


class TensorFlowEngine(Engine):
    """See `Engine`. `devices` is a `tf.distribute.Strategy`; networks and optimizers were made inside its scope."""

    def __init__(self, objective: Objective, optimizers: Mapping[str, keras.Optimizer], options: Options, devices: tf.distribute.Strategy):
        super().__init__(objective, optimizers, options, devices)
        self.replicas = devices.num_replicas_in_sync
        if options.ema is not None:
            with devices.scope():
                network = objective.networks[objective.main]
                self.average[objective.main] = averages(network)
        for optimizer in self.optimizers.values():
            # The step adds up the gradients itself, before clipping; Keras would clip each replica's share and add again.
            getattr(optimizer, "inner_optimizer", optimizer)._all_reduce_sum_gradients = list
        # JAX sees one batch however many devices share it; here a layer has to ask the other replicas. Set on the layers that
        # train and not in a config: what is saved opens on every engine, where there is nobody to ask.
        self.asks_replicas = False
        for layer in self._batch_norms() if options.sync_batch_norm and self.replicas > 1 else ():
            layer.synchronized = self.asks_replicas = True
        if self.asks_replicas and not loops_inside(devices) and any(getattr(x, "remat", False) for x in self._layers()):
            raise UserError(
                "training.sync_batch_norm: TensorFlow cannot compute a batch norm again that asks the other replicas. Set remat: none, "
                "sync_batch_norm: false (each replica's own statistics), or backend: jax."
            )
        self.step = Step(
            objective,
            seed=options.seed,
            global_batch=options.global_batch,
            differentiate=differentiate,
            loss_scale=(lambda role, loss: self.optimizers[role].scale_loss(loss)) if options.precision == "mixed_float16" else None,
        )
        self.names: list[str] = []
        jit = options.jit and self.replicas == 1
        self._run = tf.function(self.train_step, autograph=False, jit_compile=jit)

        def predict_step(batch, average: bool):
            return self._each_replica(lambda call, given: [self.objective.predict(call, given)], batch, average)

        def measure_step(batch, average: bool):
            return self._each_replica(self._measures, batch, average, stepped=True)

        self._predict, self._measure = (tf.function(f, autograph=False, jit_compile=jit) for f in (predict_step, measure_step))

    def run(self, batches: Sequence[Mapping[str, np.ndarray]], first_step: int) -> dict[str, np.ndarray]:
        count, room = len(batches), self.options.steps_per_call
        batches = [self.objective.prepare(batch) for batch in batches]
        data = {name: self._share(np.stack([b[name] for b in batches] + [batches[0][name]] * (room - count))) for name in batches[0]}
        table = self._run(data, tf.constant(first_step, tf.int64), tf.constant(count)).numpy()[:count]
        return {name: table[:, i] for i, name in enumerate(self.names)}

    def compute_prediction(self, batch: Mapping[str, np.ndarray], average: bool) -> list[np.ndarray]:
        return self._answers(self._predict, batch, average)

    def compute_measures(self, batch: Mapping[str, np.ndarray], average: bool) -> list[np.ndarray]:
        return self._answers(self._measure, batch, average)

    def _answers(self, compute, batch: Mapping[str, np.ndarray], average: bool) -> list[np.ndarray]:
        shared = {name: distribute(self.devices, np.split(value, self.replicas)) for name, value in batch.items()}
        parts = (self.devices.experimental_local_results(answer) for answer in compute(shared, average))
        return [np.concatenate([np.asarray(part.numpy()) for part in each]) for each in parts]

    def sync(self) -> None:
        """Nothing to do: the step updates the Keras variables themselves."""

    def adopt(self) -> None:
        """Nothing to do, for the same reason."""

    def follow_first(self) -> None:
        """Nothing to do: there is one host."""

    def _batch_norms(self) -> Iterator[keras.layers.BatchNormalization]:
        return (x for x in self._layers() if isinstance(x, keras.layers.BatchNormalization))

    def _layers(self) -> Iterator[keras.layers.Layer]:
        for network in self.objective.networks.values():
            yield from network._flatten_layers()

    def _share(self, array: np.ndarray):
        """(steps, global batch, ...) -> per replica (steps, accumulate, rows, ...)."""
        steps, batch, *rest = array.shape
        rows = batch // (self.replicas * self.options.accumulate)
        parts = array.reshape(steps, self.options.accumulate, self.replicas, rows, *rest)
        return distribute(self.devices, [parts[:, :, r] for r in range(self.replicas)])

    def train_step(self, data, first_step: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """The compiled part of `run`: `count` steps, and a table of what each logs."""

        def body(index, table):
            row = self.devices.run(self._replica_step, args=(data, index, first_step + tf.cast(index, tf.int64)))
            row = self.devices.experimental_local_results(row)[0]  # equal on all replicas: the sums are reduced
            return index + 1, tf.tensor_scatter_nd_update(table, [[index]], row[None])

        self.names = self._log_names(data)
        if loops_inside(self.devices):
            table = self.devices.run(self.replica_steps, args=(data, first_step, count))
            return self.devices.experimental_local_results(table)[0]
        return tf.while_loop(lambda index, _: index < count, body, (tf.constant(0), self._table()))[1]

    def replica_steps(self, data, first_step: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """One replica's part of `train_step` where the loop lies inside `strategy.run`."""

        def body(index, table):
            row = self._replica_step(data, index, first_step + tf.cast(index, tf.int64))
            return index + 1, tf.tensor_scatter_nd_update(table, [[index]], row[None])

        return tf.while_loop(lambda index, _: index < count, body, (tf.constant(0), self._table()))[1]

    def _table(self) -> tf.Tensor:
        return tf.zeros((self.options.steps_per_call, len(self.names)))

    def _log_names(self, data) -> list[str]:
        """Names of what the objective logs, learned by tracing it once on abstract values."""
        local = {name: self.devices.experimental_local_results(value)[0] for name, value in data.items()}
        names: list[str] = []

        @tf.function(autograph=False)
        def probe():
            batch = {name: tf.zeros(value.shape[2:], value.dtype) for name, value in local.items()}
            draws = self.objective.draws({name: tuple(value.shape[1:]) for name, value in batch.items()})
            rows = next(iter(batch.values())).shape[0]
            noise = {name: tf.zeros((rows, *shape)) for name, shape in draws.items()}

            def call(role, *inputs):
                network = self.objective.in_step(role)
                return network.stateless_call(tensors(network.trainable_variables), tensors(network.non_trainable_variables), *inputs)[0]

            names.extend(self.objective.losses(call, batch, noise)[1])
            return tf.constant(0)

        probe.get_concrete_function()
        return names

    def _replica_step(self, data, index: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        networks = self.objective.networks
        trainable = {role: tensors(n.trainable_variables) for role, n in networks.items()}
        other = {role: tensors(n.non_trainable_variables) for role, n in networks.items()}
        micros = self.options.accumulate

        def micro(m, other):
            place = Place(number, tf.cast(m, tf.int64), micros, tf.cast(context.replica_id_in_sync_group, tf.int64), self.replicas)
            return self.step.gradients(trainable, other, {name: value[index, m] for name, value in data.items()}, place)

        gradients, other, sums = micro(0, other)
        if self.asks_replicas and not loops_inside(self.devices):
            for m in range(1, micros):  # written out, since MirroredStrategy's replicas cannot meet inside a `tf.while_loop`
                new, other, more = micro(m, other)
                gradients, sums = add(gradients, new), add(sums, more)
        elif micros > 1:

            def body(m, gradients, other, sums):
                new, other, more = micro(m, other)
                return m + 1, add(gradients, new), other, add(sums, more)

            _, gradients, other, sums = tf.while_loop(lambda m, *_: m < micros, body, (tf.constant(1), gradients, other, sums))

        gradients, sums = context.all_reduce(tf.distribute.ReduceOp.SUM, (gradients, sums))
        for role, network in networks.items():
            self.optimizers[role].apply(gradients[role], network.trainable_variables)
            for variable, value in zip(network.non_trainable_variables, other[role], strict=True):
                if not is_seed(variable):  # moving statistics: the mean over the replicas
                    variable.value.assign(context.all_reduce(tf.distribute.ReduceOp.MEAN, value))
            decay = decay_at(self.options, number)
            for average, variable in zip(self.average.get(role, []), network.trainable_variables, strict=role in self.average):
                average.value.assign(average.value + (1.0 - decay) * (variable.value - average.value))
        return tf.stack([sums[name] for name in self.names])

    def _each_replica(self, function, batch, average: bool, stepped: bool = False):
        """`function(call, batch)` on every replica, where `call` runs a network, or the step's view of it, without training."""

        def call(role: str, *inputs):
            view = self.objective.in_step(role) if stepped else self.objective.networks[role]
            weights = self.average[role] if average and role in self.average else view.trainable_variables
            return view.stateless_call(tensors(weights), tensors(view.non_trainable_variables), *inputs, training=False)[0]

        return self.devices.run(lambda given: function(call, given), args=(batch,))
