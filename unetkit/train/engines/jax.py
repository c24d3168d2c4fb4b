"""The JAX engine: the shared step jitted with its state donated, data parallel over every device by sharding the batch.

`step_function` is the step itself, a pure function. The TPU analysis lowers exactly this function for a TPU that is not
there (`abstract_arguments` gives it shapes instead of arrays), so what is analysed is what is trained.
"""

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from unetkit.objectives import Objective
from unetkit.train.engines.base import Arrays, Engine, Options, averages, decay_at
from unetkit.train.step import Place, Step, Weights, add

State = dict[str, Weights]
AXIS = "batch"


def differentiate(function, weights: Weights):
    """Gradients of each role's loss with respect to that role's weights."""
    losses, pull, rest = jax.vjp(function, weights, has_aux=True)
    gradients = {}
    for role in weights:
        one = {name: jnp.ones_like(loss) if name == role else jnp.zeros_like(loss) for name, loss in losses.items()}
        gradients[role] = pull(one)[0][role]
    return (losses, rest), gradients


def step_function(objective: Objective, optimizers: Mapping[str, keras.Optimizer], options: Options) -> Callable:
    """The training step: (state, batch, number) -> (state, sums).

    state: `trainable`, `other`, `optimizer` by role, and `average` of the main network when there is an EMA. batch: `input`
    and `target` of the global batch, (accumulate, rows, h, w, c), rows sharded. number: optimizer steps done, a scalar.
    """

    def train_step(state: State, batch: Mapping[str, jax.Array], number: jax.Array):
        def scaled(role, loss):
            with keras.StatelessScope(state_mapping=list(zip(optimizers[role].variables, state["optimizer"][role], strict=True))):
                return optimizers[role].scale_loss(loss)

        step = Step(
            objective,
            seed=options.seed,
            global_batch=options.global_batch,
            differentiate=differentiate,
            loss_scale=scaled if options.precision == "mixed_float16" else None,
        )

        def micro(m, other):
            place = Place(number, m, options.accumulate)
            return step.gradients(state["trainable"], other, {name: value[m] for name, value in batch.items()}, place)

        gradients, other, sums = micro(0, state["other"])
        if options.accumulate > 1:

            def body(m, carry):
                gradients, other, sums = carry
                new, other, more = micro(m, other)
                return add(gradients, new), other, add(sums, more)

            gradients, other, sums = jax.lax.fori_loop(1, options.accumulate, body, (gradients, other, sums))

        new: State = {"trainable": {}, "other": other, "optimizer": {}, "average": {}}
        for role, optimizer in optimizers.items():
            new["trainable"][role], new["optimizer"][role] = optimizer.stateless_apply(
                state["optimizer"][role], gradients[role], state["trainable"][role]
            )
        for role, average in state["average"].items():
            new["average"][role] = [
                a + (1.0 - decay_at(options, number)) * (w - a) for a, w in zip(average, new["trainable"][role], strict=True)
            ]
        return new, sums

    return train_step


def jitted(objective: Objective, optimizers: Mapping[str, keras.Optimizer], options: Options, results: NamedSharding | None = None):
    """`step_function`, compiled on first use, its state donated; `results` says where its results lie (None: as the compiler likes)."""
    return jax.jit(step_function(objective, optimizers, options), donate_argnums=0, out_shardings=results)


def initial_state(objective: Objective, optimizers: Mapping[str, keras.Optimizer], options: Options) -> State:
    """The state that the Keras variables hold now, as copies (the step donates its own)."""
    networks = objective.networks
    trainable = {role: [jnp.copy(v.value) for v in n.trainable_variables] for role, n in networks.items()}
    return {
        "trainable": trainable,
        "other": {role: [jnp.copy(v.value) for v in n.non_trainable_variables] for role, n in networks.items()},
        "optimizer": {role: [jnp.copy(v.value) for v in o.variables] for role, o in optimizers.items()},
        "average": {} if options.ema is None else {objective.main: [jnp.copy(v) for v in trainable[objective.main]]},
    }


def abstract_arguments(state: State, shapes: Mapping[str, tuple[int, ...]], options: Options, mesh: Mesh):
    """Shapes in place of arrays, for lowering the step to devices that are not there.

    Args:
        state: as `initial_state` gives it, or any tree of things with shape and dtype.
        shapes: per-sample shapes of `input` and `target`.
        options: as given to `step_function`.
        mesh: one axis `batch` over the devices.
    """
    whole, rows = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec(None, AXIS))
    abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=whole), state)
    per_micro = options.global_batch // options.accumulate
    batch = {n: jax.ShapeDtypeStruct((options.accumulate, per_micro, *s), jnp.float32, sharding=rows) for n, s in shapes.items()}
    return abstract, batch, jax.ShapeDtypeStruct((), jnp.int32, sharding=whole)


class JaxEngine(Engine):
    """See `Engine`. `devices` is a `jax.sharding.Mesh` with the one axis `batch`."""

    def __init__(self, objective: Objective, optimizers: Mapping[str, keras.Optimizer], options: Options, devices: Mesh) -> None:
        super().__init__(objective, optimizers, options, devices)
        self.replicas = devices.local_mesh.size  # a prediction is each host's own
        self.whole = NamedSharding(devices, PartitionSpec())
        self.rows = NamedSharding(devices, PartitionSpec(None, AXIS))
        if options.ema is not None:
            self.average[objective.main] = averages(objective.networks[objective.main])
        self.near = NamedSharding(devices.local_mesh, PartitionSpec())
        self.alone = devices.local_mesh.size == devices.size
        self._step = jitted(objective, self.optimizers, options, None if self.alone else self.whole)
        self._predict, self._measure = jax.jit(self.predict_step), jax.jit(self.measure_step)
        self.adopt()

    def run(self, batches: Sequence[Mapping[str, np.ndarray]], first_step: int) -> dict[str, np.ndarray]:
        rows = []
        for offset, batch in enumerate(batches):
            batch = self.objective.prepare(batch)
            micro = {n: self._placed(v.reshape(self.options.accumulate, -1, *v.shape[1:])) for n, v in batch.items()}
            self._state, sums = self._step(self._state, micro, np.int32(first_step + offset))
            rows.append(sums)
        return {name: np.asarray(jax.device_get([r[name] for r in rows])) for name in rows[0]}

    def compute_prediction(self, batch: Mapping[str, np.ndarray], average: bool) -> list[np.ndarray]:
        return self._answers(self._predict, batch, average)

    def compute_measures(self, batch: Mapping[str, np.ndarray], average: bool) -> list[np.ndarray]:
        return self._answers(self._measure, batch, average)

    def _answers(self, compute, batch: Mapping[str, np.ndarray], average: bool) -> list[np.ndarray]:
        weights, other = self._own((self._state["trainable"] | (self._state["average"] if average else {}), self._state["other"]))
        placed = jax.device_put(dict(batch), NamedSharding(self.devices.local_mesh, PartitionSpec(AXIS)))
        return [np.asarray(part) for part in compute(weights, other, placed)]

    def sync(self) -> None:
        state = self._own(self._state)
        for role, network in self.objective.networks.items():
            for variables, values in (
                (network.trainable_variables, state["trainable"][role]),
                (network.non_trainable_variables, state["other"][role]),
                (self.optimizers[role].variables, state["optimizer"][role]),
                (self.average.get(role, []), state["average"].get(role, [])),
            ):
                for variable, value in zip(variables, values, strict=True):
                    variable.assign(jnp.copy(value))  # a copy: the next step donates the state's own buffer

    def load(self, state: Mapping[str, Arrays]) -> None:
        self.sync()
        super().load(state)
        self.adopt()

    def adopt(self) -> None:
        state = initial_state(self.objective, self.optimizers, self.options)
        state["average"] = {role: [jnp.copy(v.value) for v in values] for role, values in self.average.items()}
        self._state = jax.device_put(state, self.whole) if self.alone else jax.tree.map(self._everywhere, state)

    def follow_first(self) -> None:
        if self.alone:
            return
        named = {f"{group}/{name}": v for group, variables in self.variables().items() for name, v in variables.items()}
        told = multihost_utils.broadcast_one_to_all({name: keras.ops.convert_to_numpy(v.value) for name, v in named.items()})
        for name, variable in named.items():
            variable.assign(np.asarray(told[name]))
        self.adopt()

    def _placed(self, share: np.ndarray) -> jax.Array:
        """(accumulate, rows, ...) of this host as its part of the global batch."""
        return jax.device_put(share, self.rows) if self.alone else jax.make_array_from_process_local_data(self.rows, share)

    def _everywhere(self, value: jax.Array) -> jax.Array:
        """A value that every host holds, as one array over all devices."""
        held = np.asarray(value)
        return jax.make_array_from_callback(held.shape, self.whole, lambda index: np.asarray(held[index]))

    def _own(self, tree):
        """The copies of arrays that lie whole on all devices, as arrays of this host alone."""
        if self.alone:
            return tree
        return jax.tree.map(
            lambda x: jax.make_array_from_single_device_arrays(x.shape, self.near, [shard.data for shard in x.addressable_shards]), tree
        )

    def predict_step(self, weights, other, batch):
        """The compiled part of `predict`."""

        def call(role: str, *inputs):
            return self.objective.networks[role].stateless_call(weights[role], other[role], *inputs, training=False)[0]

        return [self.objective.predict(call, batch)]

    def measure_step(self, weights, other, batch):
        """The compiled part of `measure`."""

        def call(role: str, *inputs):
            return self.objective.in_step(role).stateless_call(weights[role], other[role], *inputs, training=False)[0]

        return self._measures(call, batch)
