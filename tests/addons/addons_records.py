"""Compares `unetkit.addons` with what tensorflow-addons computed, on whichever Keras backend is in use.

As a program: `addons_records.py FOLDER` compares with every record in it and prints the largest difference of each.
"""

import sys
from pathlib import Path

import keras
import numpy as np
from keras import ops

from unetkit.addons import image, layers, optimizers

RECORDS = Path(__file__).parents[1] / "golden" / "addons"
TOLERANCE = 1e-5
STEPS = 12

LAYERS = {
    "instance_normalization": layers.InstanceNormalization,
    "group_normalization_2": lambda: layers.GroupNormalization(groups=2),
    "filter_response_normalization": layers.FilterResponseNormalization,
    "tlu": layers.TLU,
    "tlu_affine": lambda: layers.TLU(affine=True),
}
WRAPPERS = {
    "weight_normalization": (lambda: layers.WeightNormalization(conv(), data_init=False), {}),
    "weight_normalization_data_init": (lambda: layers.WeightNormalization(conv()), {}),
    "spectral_normalization": (lambda: layers.SpectralNormalization(conv(), power_iterations=1), {"training": True}),
}
OPTIMIZERS = {
    "lamb": lambda: optimizers.LAMB(learning_rate=1e-2, weight_decay=0.01),
    "adamw": lambda: optimizers.AdamW(weight_decay=1e-3, learning_rate=1e-2),
    "rectified_adam": lambda: optimizers.RectifiedAdam(learning_rate=1e-2),
    "lookahead_adam": lambda: optimizers.Lookahead(keras.optimizers.Adam(1e-2), sync_period=4, slow_step_size=0.5),
    "novograd": lambda: optimizers.NovoGrad(learning_rate=1e-2, beta_1=0.95, beta_2=0.5, weight_decay=1e-3),
    "moving_average_adam": lambda: optimizers.MovingAverage(keras.optimizers.Adam(1e-2), average_decay=0.9),
    "swa_adam": lambda: optimizers.SWA(keras.optimizers.Adam(1e-2), start_averaging=2, average_period=3),
    "rectified_adam_schedule": lambda: optimizers.RectifiedAdam(
        learning_rate=1e-2, weight_decay=1e-2, amsgrad=True, total_steps=10, warmup_proportion=0.3, min_lr=1e-3
    ),
    "novograd_averaged": lambda: optimizers.NovoGrad(learning_rate=1e-2, grad_averaging=True),
    "moving_average_dynamic": lambda: optimizers.MovingAverage("adam", start_step=3, dynamic_decay=True),
    "adamw_amsgrad": lambda: optimizers.AdamW(weight_decay=1e-3, learning_rate=1e-2, amsgrad=True),
}
IMAGE_OPS = {
    "gaussian_filter2d_5_1p5": lambda x, flow: image.gaussian_filter2d(x, 5, 1.5),
    "gaussian_filter2d_4x3": lambda x, flow: image.gaussian_filter2d(x, (4, 3), (0.7, 2.0), padding="SYMMETRIC"),
    "mean_filter2d_3": lambda x, flow: image.mean_filter2d(x, 3),
    "mean_filter2d_2x5_constant": lambda x, flow: image.mean_filter2d(x, (2, 5), padding="CONSTANT", constant_values=0.5),
    "median_filter2d_3": lambda x, flow: image.median_filter2d(x, 3),
    "median_filter2d_2x3": lambda x, flow: image.median_filter2d(x, (2, 3)),
    "rotate_30deg_bilinear": lambda x, flow: image.rotate(x, np.pi / 6, "bilinear"),
    "rotate_each_reflect": lambda x, flow: image.rotate(x, [0.3, -1.2], "bilinear", fill_mode="reflect"),
    "translate_3_-2": lambda x, flow: image.translate(x, [3, -2]),
    "translate_each_nearest": lambda x, flow: image.translate(x, [[1.5, 0.25], [-4.0, 2.0]], "bilinear", fill_mode="nearest"),
    "sharpness_0p5": lambda x, flow: image.sharpness(x, 0.5),
    "sharpness_2_of_255": lambda x, flow: image.sharpness(255 * x, 2.0),
    "dense_image_warp": image.dense_image_warp,
    "cutout_4x6_center_8_9": lambda x, flow: image.cutout(x, (4, 6), offset=(8, 9)),
    "cutout_each": lambda x, flow: image.cutout(x, 6, offset=[[0, 3], [15, 19]], constant_values=0.5),
}


def conv() -> keras.layers.Layer:
    return keras.layers.Conv2D(5, 3, padding="same")


def compare(name: str, record) -> float:
    """The largest absolute difference between ours and a record."""
    if name == "image_ops":
        return max(compare_image_op(op, record) for op in record if op not in ("img", "flow"))
    kind = {**dict.fromkeys(LAYERS, compare_layer), **dict.fromkeys(WRAPPERS, compare_wrapper), **dict.fromkeys(OPTIMIZERS, compare_path)}
    return kind[name](name, record)


def difference(ours, theirs) -> float:
    return float(np.abs(ops.convert_to_numpy(ours).astype("float64") - np.asarray(theirs, "float64")).max())


def compare_image_op(op: str, record) -> float:
    return difference(IMAGE_OPS[op](record["img"], record["flow"]), record[op])


def compare_layer(name: str, record) -> float:
    layer = LAYERS[name]()
    layer.build(record["x"].shape)
    weights = {weight.name: weight for weight in layer.weights}
    assert set(weights) == {key[2:] for key in record if key.startswith("w_")}
    for weight_name, weight in weights.items():
        weight.assign(record[f"w_{weight_name}"])
    y, by_input, by_weight = value_and_gradients(layer, record["x"], record["target"])
    errors = [difference(y, record["y"]), difference(by_input, record["grad_x"])]
    return max(errors + [difference(by_weight[weight_name], record[f"g_{weight_name}"]) for weight_name in weights])


def value_and_gradients(layer, x, target):
    """The output, and the gradients of mean((output - target)^2) by the input and by each weight, by its name."""
    names = [weight.name for weight in layer.trainable_weights]
    if keras.backend.backend() == "jax":
        import jax

        def loss(x, weights):
            y, _ = layer.stateless_call(weights, [v.value for v in layer.non_trainable_variables], x)
            return ops.mean(ops.square(y - target)), y

        values = [weight.value for weight in layer.trainable_weights]
        (_, y), (by_input, by_weight) = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))(x, values)
        return y, by_input, dict(zip(names, by_weight, strict=True))
    import tensorflow as tf

    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
        loss = tf.reduce_mean(tf.square(y - target))
    by_input, by_weight = tape.gradient(loss, (x, [weight.value for weight in layer.trainable_weights]))
    return y, by_input, dict(zip(names, by_weight, strict=True))


def compare_wrapper(name: str, record) -> float:
    make, mode = WRAPPERS[name]
    wrapper = make()
    wrapper.build(record["x"].shape)
    weights = {weight.name: weight for weight in wrapper.weights}
    known = {key.removeprefix("before__"): key for key in record if key.startswith("before__")}
    assert set(weights) - {"sigma"} == set(known)  # sigma is ours: 1 wherever the kernel itself is written back
    for weight_name, key in known.items():
        weights[weight_name].assign(record[key].astype("float32"))
    outputs = [wrapper(record["x"], **mode) for _ in record["y_steps"]]
    errors = [difference(y, theirs) for y, theirs in zip(outputs, record["y_steps"], strict=True)]
    return max(errors + [difference(weights[n].value, record[f"after__{n}"]) for n in known])


def compare_path(name: str, record) -> float:
    optimizer = OPTIMIZERS[name]()
    variables = [keras.Variable(record[f"init_{k}"], name=f"weight_{k}") for k in range(2)]
    optimizer.build(variables)
    errors = []
    for step in range(STEPS):
        optimizer.apply([ops.convert_to_tensor(record[f"g{step}_{k}"]) for k in range(2)])
        errors += [difference(v.value, record[f"w{step}_{k}"]) for k, v in enumerate(variables)]
    if "avg_0" in record:
        optimizer.assign_average_vars(variables)
        errors += [difference(v.value, record[f"avg_{k}"]) for k, v in enumerate(variables)]
    return max(errors)


def main(folder: Path) -> int:
    files = sorted(folder.glob("*.npz"))
    worst = 0.0
    for file in files:
        error = compare(file.stem, dict(np.load(file)))
        worst = max(worst, error)
        print(f"{keras.backend.backend():10} {file.stem:32} {error:.1e}")
    return 0 if files and worst < TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
