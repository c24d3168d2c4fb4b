"""Compiles one lowered program for a TPU that is not there. Runs alone, as a child process: `python worker.py FOLDER`.

It needs nothing but jax and libtpu, so that it can run in another environment than the one that trains, and it imports
nothing of ours. A crash in libtpu takes this process with it and no other. All private entry points of JAX that the TPU
rooms use are in this file; they were tested with the versions in `TESTED`.

FOLDER holds `request.json` (see `main`) and `program`, StableHLO as MLIR bytecode or an HLO module proto. Left behind:
`dump/` with the compiler's own text and, written last, `result.json`:

    outcome    compiled | memory | oom | failed
    message    the compiler's words, for the last two
    memory     bytes by name, as the compiler counts them for one device
    cost       FLOPs and bytes of the program, as XLA counts them
    versions   jax, jaxlib, libtpu, and what the compiler says of itself
    seconds    wall-clock time of the compilation
"""

import importlib.metadata
import json
import os
import re
import sys
import threading
import time

TESTED = {"jax": "0.10.2", "libtpu": "0.0.52"}

ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",  # else libtpu asks Google's metadata server, which is not there
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # else a lock file refuses a second process
    "TPU_LOG_DIR": "disabled",
    "TPU_MIN_LOG_LEVEL": "3",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}

ASSIGNED = "after_optimizations_after_buffer_assignment.txt"
"""Ends the name of the file that the compiler writes once it has placed every buffer and found that all fit."""


def dump_flags(folder):
    """What XLA_FLAGS must hold before this process starts."""
    return f"--xla_dump_to={os.path.join(folder, 'dump')} --xla_dump_hlo_as_text --xla_dump_hlo_as_proto"


def write_result(folder, result):
    """Appears whole or not at all: the parent may look at any time."""
    temporary = os.path.join(folder, "result.json.tmp")
    with open(temporary, "w") as file:
        json.dump(result, file)
    os.replace(temporary, os.path.join(folder, "result.json"))


def versions():
    return {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "libtpu")}


def compile_program(program, request):
    """The compiled executable of `program` (bytes) for `request`."""
    import numpy as np
    from jax._src import compiler, xla_bridge
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax
    from jax.extend.mlir import ir

    if request["format"] == "captured":
        program = from_captured(program)
    if request["format"] != "stablehlo":
        program = _jax.mlir.hlo_to_stablehlo(program)
    with mlir.make_ir_context():
        module = ir.Module.parse(program)
        drop_copies(module)
        topology = xla_bridge.make_pjrt_tpu_topology(request["topology"], **request["topology_options"])
        devices = topology._make_compile_only_devices()[: request["replicas"] * request["partitions"]]
        options = compiler.get_compile_options(
            num_replicas=request["replicas"],
            num_partitions=request["partitions"],
            device_assignment=np.array(devices).reshape(request["replicas"], request["partitions"]),
        )
        if request["format"] != "stablehlo":
            options.executable_build_options.use_shardy_partitioner = False
        client = devices[0].client
        return client.compile(module, executable_devices=_jax.DeviceList(tuple(devices)), compile_options=options), client.platform_version


def from_captured(program):
    """An HLO module captured on a TPU (also a single fused kernel) as one that can be compiled again.

    Dropped: the schedule and the aliases. Split and joined 64-bit counters become plain conversions, and fusions become
    calls, for the compiler to fuse again.
    """
    from jaxlib import _hlo

    text = _hlo.HloModule.from_serialized_hlo_module_proto(program).to_string()
    head, _, rest = text.partition("\n")
    head = re.sub(r", input_output_alias=\{ .*?\) \}", "", head.replace(", is_scheduled=true", ""))
    split = r'custom-call\((%[\w.\-]+)(?:, %[\w.\-]+)?\), custom_call_target="X64(?:SplitLow|SplitHigh|Combine)"'
    rest = re.sub(split, r"convert(\1)", rest)
    rest = re.sub(r" fusion\((.*?)\), kind=k\w+, calls=(%[\w.\-]+)", r" call(\1), to_apply=\2", rest)
    rest = re.sub(r" bitcast\(", " reshape(", rest)
    return _hlo.hlo_module_from_text(f"{head}\n{rest}").as_serialized_hlo_module_proto()


def drop_copies(module):
    """Takes out the `mhlo.copy` operations that TensorFlow's bridge leaves behind: StableHLO has none, and each is its operand."""
    from jax.extend.mlir import ir

    copies = []

    def collect(operation):
        if operation.name == "mhlo.copy":
            copies.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect)
    for copy in copies:
        copy.results[0].replace_all_uses_with(copy.operands[0])
        copy.erase()


def memory_of(executable):
    stats = executable.get_compiled_memory_stats()
    names = ("argument", "output", "alias", "temp", "generated_code", "peak_memory")
    found = {name: getattr(stats, f"{name}_size_in_bytes" if name != "peak_memory" else "peak_memory_in_bytes") for name in names}
    return {name.removeprefix("generated_").removesuffix("_memory"): value for name, value in found.items()}


def stop_when_assigned(folder, started):
    """Ends this process with the outcome `memory` as soon as every buffer has its place; code is not generated."""
    dump = os.path.join(folder, "dump")
    while True:
        time.sleep(0.05)
        if os.path.isdir(dump) and any(name.endswith(ASSIGNED) for name in os.listdir(dump)):
            time.sleep(0.2)  # the proto beside it follows at once
            result = {"outcome": "memory", "memory": {}, "cost": {}, "versions": versions(), "seconds": time.time() - started}
            write_result(folder, result)
            os._exit(0)


def die_with(parent):
    """Ends this process when its parent is gone: nobody would read the answer."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def main(folder):
    """Compiles what FOLDER asks for.

    request.json: `format` (stablehlo, hlo, or captured: HLO as a TPU ran it), `topology` (v2:2x2), `topology_options`,
    `replicas` and `partitions` (how many devices run it, as replicas or as partitions of one program), `stage` (full, or
    memory: stop once buffers are placed).
    """
    with open(os.path.join(folder, "request.json")) as file:
        request = json.load(file)
    with open(os.path.join(folder, "program"), "rb") as file:
        program = file.read()
    started = time.time()
    threading.Thread(target=die_with, args=(os.getppid(),), daemon=True).start()
    if request["stage"] == "memory":
        threading.Thread(target=stop_when_assigned, args=(folder, started), daemon=True).start()
    try:
        executable, compiler_says = compile_program(program, request)
    except Exception as error:
        outcome = "oom" if "CompileTimeHbmOom" in str(error) or "Ran out of memory" in str(error) else "failed"
        result = {"outcome": outcome, "message": str(error), "memory": {}, "cost": {}}
    else:
        cost = {k: v for k, v in executable.cost_analysis().items() if "{" not in k}
        result = {"outcome": "compiled", "memory": memory_of(executable), "cost": cost, "compiler": compiler_says}
    write_result(folder, {**result, "versions": versions(), "seconds": time.time() - started})


if __name__ == "__main__":
    main(sys.argv[1])
