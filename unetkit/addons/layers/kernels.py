"""Wrappers that normalize the kernel of the layer inside: weight and spectral normalization. Kernels are handled in float32.

tensorflow-addons changed the wrapped layer's trainable weights during the call. Where a step is a pure function of its weights
(Keras on JAX, and unetkit's engines on both backends) a layer's trainable weights cannot be changed by the call, only its
others. What each wrapper does then is said in its docstring.
"""

import keras
from keras import ops
from keras.src.backend import AutocastScope  # no public names for these two
from keras.src.backend.common.stateless_scope import in_stateless_scope

from unetkit.errors import UserError

LEAST_SQUARED_NORM = 1e-12  # of a vector that is brought to length 1, as in tf.math.l2_normalize


def normalize(vectors, axis):
    """Vectors of length 1 along `axis`, an axis or several."""
    squared = ops.sum(ops.square(vectors), axis=axis, keepdims=True)
    return vectors * ops.rsqrt(ops.maximum(squared, LEAST_SQUARED_NORM))


class KernelWrapper(keras.layers.Wrapper):
    """Abstract: calls the layer inside with another kernel than it has.

    Args:
        layer: has a `kernel` (or, for spectral normalization, `embeddings`).
    """

    kernel_names = ("kernel",)

    def __init__(self, layer: keras.layers.Layer, **kwargs):
        super().__init__(layer, **kwargs)
        self.autocast = False  # the layer inside narrows what it computes with

    def build(self, input_shape):
        super().build(input_shape)
        if self.kernel is None:
            raise UserError(f"{type(self).__name__}: {type(self.layer).__name__} has no {' or '.join(self.kernel_names)} to normalize.")

    @property
    def kernel(self) -> keras.Variable | None:
        """The weight of the layer inside that is normalized. Not an attribute: Keras would save it twice."""
        return next((weight for name in self.kernel_names if (weight := getattr(self.layer, name, None)) is not None), None)

    def call(self, inputs, training=None):
        with AutocastScope(None):  # kernels are float32 here; `autocast=False` alone does not see to that in an outermost layer
            return self.normalized_call(inputs, training)

    def normalized_call(self, inputs, training):
        """What `call` does, by `call_with`."""
        raise NotImplementedError(f"{type(self).__name__} must define normalized_call(self, inputs, training)")

    def call_with(self, kernel, inputs):
        """The layer inside on `inputs`, with this kernel in place of its own."""
        values = [(v, kernel if v is self.kernel else v.value) for v in self.layer.variables]
        with keras.StatelessScope(values):
            return self.layer(inputs)

    def compute_output_shape(self, input_shape):
        return self.layer.compute_output_shape(input_shape)

    def get_config(self):
        config = super().get_config()
        config["layer"].pop("build_config", None)  # the wrapper builds it, and a saved model must say the same as the first
        return config

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return super().from_config(dict(config), custom_objects)  # Keras' takes the layer out of the dictionary that it is given


@keras.saving.register_keras_serializable("unetkit.addons")
class WeightNormalization(KernelWrapper):
    """Kernel = g * v / |v| for each output channel (Salimans and Kingma 2016, eq. 2), v being the kernel of the layer inside.

    The first call sets g, and with `data_init` the bias, and marks the layer as initialized. A call that is a pure function
    of the weights cannot do that: there g stays as it is, 1 at first. Run the layer once on a batch before such a training.

    Args:
        layer: a layer with a `kernel`, as `Conv2D` or `Dense`.
        data_init: set g and the bias by the first batch, so that its outputs (before the activation) have mean 0 and variance 1
            per channel (section 3 of the paper). False: set g = |v|, so that nothing changes.

    Call arguments:
        inputs: what the layer takes.

    Returns:
        What the layer returns.
    """

    def __init__(self, layer: keras.layers.Layer, data_init: bool = True, **kwargs):
        if isinstance(layer, keras.layers.RNN):
            raise UserError("WeightNormalization: recurrent layers are not supported here; wrap Conv, Dense and their kin.")
        super().__init__(layer, **kwargs)
        self.data_init = data_init
        self.g_initializer = keras.initializers.Ones()
        self.initialized_initializer = keras.initializers.Zeros()

    def build(self, input_shape):
        super().build(input_shape)
        self.g = self.add_weight(shape=(self.kernel.shape[-1],), name="g", initializer=self.g_initializer, autocast=False)
        # 0 or 1, as a number: a checkpoint then holds nothing but float32 weights.
        self.initialized = self.add_weight(
            shape=(), name="initialized", initializer=self.initialized_initializer, trainable=False, autocast=False
        )
        self.axes = list(range(len(self.kernel.shape) - 1))

    def normalized_call(self, inputs, training):
        if not in_stateless_scope():
            g, bias = ops.cond(self.initialized.value > 0, self.current, lambda: self.first(inputs))
            self.g.assign(g)
            if bias:
                self.layer.bias.assign(bias[0])
            self.initialized.assign(1.0)
        return self.call_with(normalize(self.kernel.value, self.axes) * self.g, inputs)

    def biases(self) -> list[keras.Variable]:
        """The layer's bias, if data may set it."""
        bias = getattr(self.layer, "bias", None)
        return [bias] if self.data_init and bias is not None else []

    def current(self):
        return ops.convert_to_tensor(self.g), [ops.convert_to_tensor(bias) for bias in self.biases()]

    def first(self, inputs):
        """g and bias by the first batch, or by the kernel."""
        if not self.data_init:
            return ops.sqrt(ops.sum(ops.square(self.kernel.value), axis=self.axes)), []
        outputs = ops.cast(self.linear(inputs), "float32")
        mean, variance = ops.moments(outputs, axes=list(range(len(outputs.shape) - 1)))
        scale = 1.0 / ops.sqrt(variance + 1e-10)
        return self.g * scale, [-mean * scale for _ in self.biases()]

    def linear(self, inputs):
        """The layer inside as it stands, without its activation."""
        activation = self.layer.activation
        self.layer.activation = keras.activations.linear
        try:
            return self.call_with(self.kernel.value, inputs)
        finally:
            self.layer.activation = activation

    def remove(self) -> keras.layers.Layer:
        """The layer inside, with the normalized kernel as its own."""
        self.kernel.assign(normalize(self.kernel.value, self.axes) * self.g)
        return self.layer

    def get_config(self):
        return super().get_config() | {"data_init": self.data_init}


@keras.saving.register_keras_serializable("unetkit.addons")
class SpectralNormalization(KernelWrapper):
    """Kernel / its largest singular value (Miyato et al. 2018, algorithm 1), by power iteration in each call in training.

    The singular value is that of the kernel as a matrix (everything else, outputs). As in tensorflow-addons, a call in training
    writes the normalized kernel back into the layer inside, and a call out of training takes that kernel as it stands: before
    the first call in training nothing is normalized. A call that is a pure function of the weights cannot write the kernel
    back; there the kernel is divided in each call, the gradient goes through the division, and the singular value found last in
    training is kept in `sigma` and used out of training, so the outputs are normalized all the same.

    Args:
        layer: a layer with a `kernel` or `embeddings`.
        power_iterations: rounds of the power iteration per call.

    Call arguments:
        inputs: what the layer takes.
        training: whether to iterate.

    Returns:
        What the layer returns.
    """

    kernel_names = ("kernel", "embeddings")

    def __init__(self, layer: keras.layers.Layer, power_iterations: int = 1, **kwargs):
        super().__init__(layer, **kwargs)
        if power_iterations < 1:
            raise UserError(f"SpectralNormalization: power_iterations={power_iterations!r} must be a whole number, 1 or more.")
        self.power_iterations = power_iterations
        self.sn_u_initializer = keras.initializers.TruncatedNormal(stddev=0.02)
        self.sigma_initializer = keras.initializers.Ones()

    def build(self, input_shape):
        super().build(input_shape)
        width = self.kernel.shape[-1]
        self.u = self.add_weight(shape=(1, width), name="sn_u", initializer=self.sn_u_initializer, trainable=False, autocast=False)
        self.sigma = self.add_weight(shape=(), name="sigma", initializer=self.sigma_initializer, trainable=False, autocast=False)

    def normalized_call(self, inputs, training):
        if training:
            self.normalize_weights()
        return self.call_with(self.kernel.value / self.sigma, inputs)

    def normalize_weights(self) -> None:
        """One round: moves u, and divides the kernel by its largest singular value (or keeps that in `sigma`)."""
        matrix = ops.reshape(self.kernel.value, (-1, self.kernel.shape[-1]))
        u = self.u.value
        for _ in range(self.power_iterations):
            v = normalize(ops.matmul(u, ops.transpose(matrix)), axis=None)
            u = normalize(ops.matmul(v, matrix), axis=None)
        u, v = ops.stop_gradient(u), ops.stop_gradient(v)
        sigma = ops.squeeze(ops.matmul(ops.matmul(v, matrix), ops.transpose(u)))
        sigma = ops.where(sigma == 0, ops.ones_like(sigma), sigma)  # of a kernel of zeros
        self.u.assign(u)
        if in_stateless_scope():
            self.sigma.assign(sigma)
        else:
            self.kernel.assign(self.kernel.value / sigma)
            self.sigma.assign(ops.ones_like(sigma))

    def get_config(self):
        return super().get_config() | {"power_iterations": self.power_iterations}
