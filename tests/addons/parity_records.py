"""Writes fresh records of what tensorflow-addons computes from random inputs. `make parity` runs it in an environment of its own.

Arguments: a folder to write to, and a seed. `addons_records.py` compares ours with them; the names and arguments are the same.
"""

import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_addons as tfa

STEPS = 12
Adam = tf.keras.optimizers.legacy.Adam

LAYERS = {
    "instance_normalization": tfa.layers.InstanceNormalization,
    "group_normalization_2": lambda: tfa.layers.GroupNormalization(groups=2),
    "filter_response_normalization": tfa.layers.FilterResponseNormalization,
    "tlu": tfa.layers.TLU,
    "tlu_affine": lambda: tfa.layers.TLU(affine=True),
}
WRAPPERS = {
    "weight_normalization": (lambda: tfa.layers.WeightNormalization(conv(), data_init=False), {}),
    "weight_normalization_data_init": (lambda: tfa.layers.WeightNormalization(conv()), {}),
    "spectral_normalization": (lambda: tfa.layers.SpectralNormalization(conv(), power_iterations=1), {"training": True}),
}
OPTIMIZERS = {
    "lamb": lambda: tfa.optimizers.LAMB(learning_rate=1e-2, weight_decay=0.01),
    "adamw": lambda: tfa.optimizers.AdamW(weight_decay=1e-3, learning_rate=1e-2),
    "rectified_adam": lambda: tfa.optimizers.RectifiedAdam(learning_rate=1e-2),
    "lookahead_adam": lambda: tfa.optimizers.Lookahead(Adam(1e-2), sync_period=4, slow_step_size=0.5),
    "novograd": lambda: tfa.optimizers.NovoGrad(learning_rate=1e-2, beta_1=0.95, beta_2=0.5, weight_decay=1e-3),
    "moving_average_adam": lambda: tfa.optimizers.MovingAverage(Adam(1e-2), average_decay=0.9),
    "swa_adam": lambda: tfa.optimizers.SWA(Adam(1e-2), start_averaging=2, average_period=3),
    "rectified_adam_schedule": lambda: tfa.optimizers.RectifiedAdam(
        learning_rate=1e-2, weight_decay=1e-2, amsgrad=True, total_steps=10, warmup_proportion=0.3, min_lr=1e-3
    ),
    "novograd_averaged": lambda: tfa.optimizers.NovoGrad(learning_rate=1e-2, grad_averaging=True),
    "moving_average_dynamic": lambda: tfa.optimizers.MovingAverage("adam", start_step=3, dynamic_decay=True),
    "adamw_amsgrad": lambda: tfa.optimizers.AdamW(weight_decay=1e-3, learning_rate=1e-2, amsgrad=True),
}
IMAGE_OPS = {
    "gaussian_filter2d_5_1p5": lambda x, flow: tfa.image.gaussian_filter2d(x, 5, 1.5),
    "gaussian_filter2d_4x3": lambda x, flow: tfa.image.gaussian_filter2d(x, (4, 3), (0.7, 2.0), padding="SYMMETRIC"),
    "mean_filter2d_3": lambda x, flow: tfa.image.mean_filter2d(x, 3),
    "mean_filter2d_2x5_constant": lambda x, flow: tfa.image.mean_filter2d(x, (2, 5), padding="CONSTANT", constant_values=0.5),
    "median_filter2d_3": lambda x, flow: tfa.image.median_filter2d(x, 3),
    "median_filter2d_2x3": lambda x, flow: tfa.image.median_filter2d(x, (2, 3)),
    "rotate_30deg_bilinear": lambda x, flow: tfa.image.rotate(x, np.pi / 6, "bilinear"),
    "rotate_each_reflect": lambda x, flow: tfa.image.rotate(x, [0.3, -1.2], "bilinear", fill_mode="reflect"),
    "translate_3_-2": lambda x, flow: tfa.image.translate(x, [3, -2]),
    "translate_each_nearest": lambda x, flow: tfa.image.translate(x, [[1.5, 0.25], [-4.0, 2.0]], "bilinear", fill_mode="nearest"),
    "sharpness_0p5": lambda x, flow: tfa.image.sharpness(x, 0.5),
    "sharpness_2_of_255": lambda x, flow: tfa.image.sharpness(255 * x, 2.0),
    "dense_image_warp": tfa.image.dense_image_warp,
    "cutout_4x6_center_8_9": lambda x, flow: tfa.image.cutout(x, (4, 6), offset=(8, 9)),
    "cutout_each": lambda x, flow: tfa.image.cutout(x, 6, offset=[[0, 3], [15, 19]], constant_values=0.5),
}


def conv():
    return tf.keras.layers.Conv2D(5, 3, padding="same")


def short(weight) -> str:
    return weight.name.split("/")[-1].split(":")[0]


def normal(rng, shape):
    return rng.normal(size=shape).astype("float32")


def layer_record(make, rng):
    layer = make()
    x, target = normal(rng, (3, 6, 5, 8)), normal(rng, (3, 6, 5, 8))
    layer.build(x.shape)
    for weight in layer.weights:
        weight.assign(normal(rng, weight.shape))
    set_before = {f"w_{short(w)}": w.numpy() for w in layer.weights}
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
        loss = tf.reduce_mean(tf.square(y - target))
    by_input, by_weight = tape.gradient(loss, (x, layer.trainable_weights))
    gradients = {f"g_{short(w)}": g.numpy() for w, g in zip(layer.trainable_weights, by_weight, strict=True)}
    return {"x": x.numpy(), "target": target, "y": y.numpy(), "grad_x": by_input.numpy(), **set_before, **gradients}


def wrapper_record(make, mode, rng):
    wrapper = make()
    x = normal(rng, (3, 6, 5, 8))
    wrapper.build(x.shape)
    # Taken before the first call, which in WeightNormalization replaces the layer's kernel by a tensor.
    weights = {"kernel": wrapper.layer.kernel, "bias": wrapper.layer.bias}
    weights |= {"sn_u": wrapper.u} if hasattr(wrapper, "u") else {"g": wrapper.g, "initialized": wrapper._initialized}
    for name in ("kernel", "bias", "sn_u"):
        if name in weights:
            weights[name].assign(normal(rng, weights[name].shape))
    if hasattr(wrapper, "_naked_clone_layer"):
        wrapper._naked_clone_layer.set_weights([weights["kernel"].numpy(), weights["bias"].numpy()])
    before = {f"before__{name}": weight.numpy() for name, weight in weights.items()}
    outputs = np.stack([wrapper(x, **mode).numpy() for _ in range(3)])
    return {"x": x, "y_steps": outputs, **before, **{f"after__{name}": weight.numpy() for name, weight in weights.items()}}


def path_record(make, rng):
    optimizer = make()
    variables = [tf.Variable(normal(rng, shape), name=f"weight_{k}") for k, shape in enumerate([(4, 3), (5,)])]
    record = {f"init_{k}": v.numpy() for k, v in enumerate(variables)}
    for step in range(STEPS):
        gradients = [normal(rng, v.shape) for v in variables]
        optimizer.apply_gradients([(tf.constant(g), v) for g, v in zip(gradients, variables, strict=True)])
        for k, (g, v) in enumerate(zip(gradients, variables, strict=True)):
            record |= {f"g{step}_{k}": g, f"w{step}_{k}": v.numpy()}
    if hasattr(optimizer, "assign_average_vars"):
        optimizer.assign_average_vars(variables)
        record |= {f"avg_{k}": v.numpy() for k, v in enumerate(variables)}
    return record


def image_record(rng):
    images, flow = rng.uniform(size=(2, 16, 20, 3)).astype("float32"), 2 * normal(rng, (2, 16, 20, 2))
    return {"img": images, "flow": flow, **{name: op(images, flow).numpy() for name, op in IMAGE_OPS.items()}}


def main(folder: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    records = {name: layer_record(make, rng) for name, make in LAYERS.items()}
    records |= {name: wrapper_record(make, mode, rng) for name, (make, mode) in WRAPPERS.items()}
    records |= {name: path_record(make, rng) for name, make in OPTIMIZERS.items()}
    records["image_ops"] = image_record(rng)
    for name, record in records.items():
        np.savez(folder / f"{name}.npz", **record)
    print(f"{len(records)} records of tensorflow-addons {tfa.__version__} under TensorFlow {tf.__version__}, seed {seed}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
