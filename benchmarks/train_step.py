"""Images per second of the training step: unetkit's engine beside bare Keras `fit`, and beside PyTorch where it is installed.

    python benchmarks/train_step.py [RECIPE] [--rounds 7] [--calls 4]

Same network, objective, batch and steps per call; batches lie in memory; the contenders take turns, and the median of the
rounds counts. Compilation is left out. XLA on a CPU can be many times slower: `fit` with `jit_compile` takes part only if
one step of it takes less than `GIVE_UP` times the time of one step of the other; both figures are printed.
"""

import argparse
import dataclasses
import importlib.util
import itertools
import statistics
import time

import numpy as np

GIVE_UP = 3.0


def ours(recipe, batches):
    from unetkit import build
    from unetkit.train.devices import open_devices
    from unetkit.train.plan import make_plan

    plan = make_plan(recipe, recipe.training.batch)
    engine = build.engine(recipe, open_devices(recipe.hardware, recipe.backend), plan)
    per_call = recipe.training.steps_per_call

    def run(calls):
        for call in range(calls):
            engine.run(batches[:per_call], call * per_call)
        return calls * per_call * recipe.training.batch

    return run


def keras_fit(recipe, batches, calls, jit, per_call):
    from unetkit import build
    from unetkit.train.optimizers import make_optimizer
    from unetkit.train.plan import make_plan

    network = build.network(recipe)
    plan = make_plan(recipe, recipe.training.batch)
    optimizer = make_optimizer(recipe.optimizer, network.trainable_variables, batch=plan.batch, images=plan.images)
    goal = build.objective(recipe, network)

    def loss(target, output):
        return goal.losses(lambda role, image: output, {"input": target, "target": target}, {})[0]["model"]

    network.compile(optimizer=optimizer, loss=loss, jit_compile=jit, steps_per_execution=per_call)
    inputs, targets = (np.concatenate([b[name] for b in batches[:per_call]] * calls) for name in ("input", "target"))

    def run(calls):
        images = calls * per_call * recipe.training.batch
        network.fit(inputs[:images], targets[:images], batch_size=recipe.training.batch, epochs=1, verbose=0, shuffle=False)
        return images

    return run


def torch_loop(recipe, batches):
    import torch
    from torch import nn
    from torch.nn import functional as F

    model = recipe.model

    def conv(before, after, norm, dropout=0.0):
        layers = [nn.Conv2d(before, after, model.kernel_size, padding="same")]
        if norm != "none":
            layers.append(nn.GroupNorm(min(model.groups, after), after, eps=1e-5))
        layers.append(nn.SiLU() if model.activation == "silu" else nn.LeakyReLU(model.negative_slope or 0.2))
        return nn.Sequential(*layers, *([nn.Dropout(dropout)] if dropout else []))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            widths, norms = [lv.channels for lv in model.levels], [lv.norm or model.norm for lv in model.levels]
            drops = [lv.dropout or 0.0 for lv in model.levels]
            before = [recipe.data.input_channels, *widths]
            down = zip(before, widths, norms, drops, strict=False)
            self.down = nn.ModuleList(nn.Sequential(conv(b, w, n, d), conv(w, w, n)) for b, w, n, d in down)
            self.up = nn.ModuleList(
                nn.ConvTranspose2d(c, w, 3, 2, 1, 1)
                if model.up == "transposed_conv"
                else nn.Conv2d(c, w, model.up_kernel_size, padding="same")
                for w, c in itertools.pairwise(widths)
            )
            joins = zip(widths[:-1], norms, drops, strict=False)
            self.join = nn.ModuleList(nn.Sequential(conv(2 * w, w, n, d), conv(w, w, n)) for w, n, d in joins)
            self.head = nn.Conv2d(widths[0], recipe.data.target_channels, 1)

        def forward(self, x):
            skips = []
            for i, block in enumerate(self.down):
                x = block(x)
                if i < len(self.up):
                    skips.append(x)
                    x = F.max_pool2d(x, 2)
            for up, join, skip in zip(reversed(self.up), reversed(self.join), reversed(skips), strict=True):
                x = up(x if model.up == "transposed_conv" else F.interpolate(x, scale_factor=2))
                x = join(torch.cat([skip, F.silu(x) if model.activation == "silu" else F.leaky_relu(x, 0.2)], 1))
            return torch.tanh(self.head(x))

    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    lossf = {
        "l1": F.l1_loss,
        "l2": F.mse_loss,
        "psnr": lambda output, target: 10 * ((output - target) ** 2).mean((1, 2, 3)).add(4e-10).log10().mean(),
    }[recipe.objective.loss]
    data = [(torch.tensor(b["input"].transpose(0, 3, 1, 2)), torch.tensor(b["target"].transpose(0, 3, 1, 2))) for b in batches]

    def run(calls):
        for _ in range(calls):
            for x, y in data:
                optimizer.zero_grad()
                lossf(net(x), y).backward()
                optimizer.step()
        return calls * len(data) * recipe.training.batch

    print(f"PyTorch {torch.__version__}: {sum(p.numel() for p in net.parameters()):,} weights, {torch.get_num_threads()} threads")
    return run


def rate(run, calls, warm_up=False):
    """Images per second of some calls; `warm_up` makes them once before, which compiles."""
    if warm_up:
        run(calls)
    began = time.perf_counter()
    images = run(calls)
    return images / (time.perf_counter() - began)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", nargs="?", default="recipes/emoji.yaml")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=4, help="device calls per round and contender")
    args = parser.parse_args()

    from unetkit import backend
    from unetkit import recipe as recipes

    recipe = recipes.read(args.recipe, ["hardware.deterministic=false"])
    recipe = dataclasses.replace(recipe, training=dataclasses.replace(recipe.training, ema=None))  # `fit` has no such copy
    backend.select(recipe.backend)
    rng = np.random.default_rng(0)
    data, batch = recipe.data, recipe.training.batch
    side = data.size if isinstance(data.size, tuple) else (data.size, data.size)
    batches = [
        {
            "input": rng.uniform(-1, 1, (batch, *side, data.input_channels)).astype(np.float32),
            "target": rng.uniform(-1, 1, (batch, *side, data.target_channels)).astype(np.float32),
        }
        for _ in range(recipe.training.steps_per_call)
    ]
    per_call = recipe.training.steps_per_call
    contenders = {
        "unetkit": ours(recipe, batches),
        "keras fit": keras_fit(recipe, batches, args.calls, False, per_call),
    }
    plain, compiled = (rate(keras_fit(recipe, batches, 1, jit, 1), 1, warm_up=True) for jit in (False, True))
    print(f"keras fit, one step a call: {plain:.1f} images/s, with jit_compile {compiled:.1f}")
    if compiled * GIVE_UP > plain:
        contenders["keras fit, jit_compile"] = keras_fit(recipe, batches, args.calls, True, per_call)
    if importlib.util.find_spec("torch"):
        contenders["pytorch"] = torch_loop(recipe, batches)
    else:
        print("PyTorch is not installed: no ratio against it")
    for run in contenders.values():
        run(1)  # compiles
    rates = {name: [] for name in contenders}
    for _ in range(args.rounds):
        for name, run in contenders.items():
            rates[name].append(rate(run, args.calls))
    median = {name: statistics.median(values) for name, values in rates.items()}
    for name, values in rates.items():
        print(f"{name:24} {median[name]:8.1f} images/s   (rounds {min(values):.1f} to {max(values):.1f})")
    faster = max(value for name, value in median.items() if name.startswith("keras"))
    print(f"unetkit / faster keras fit = {median['unetkit'] / faster:.3f}")
    if "pytorch" in median:
        print(f"unetkit / pytorch          = {median['unetkit'] / median['pytorch']:.3f}")


if __name__ == "__main__":
    main()
