"""Several processes: an executable over the devices of two, and one in each of them, with CPUs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.processes import clean_environment

pytestmark = pytest.mark.process

# Each of two processes with two CPU devices; what rank 0 compiles, both then load.
PROCESSES = """
import dataclasses, json, os, sys, time
from pathlib import Path
import jax, numpy as np
rank, port, root = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"localhost:{port}", 2, rank)
import aotbuild
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from aotbuild.format.padding import PaddedDim, Padding
from support.packages import build, write
x = np.arange(8, dtype="float32")
def spread(x):
    return x * 2 + x.sum()
made = build("spread", spread, {"x": x}, mesh={"data": 4}, in_specs={"x": ("data",)},
             out_spec=("data",))
record = made.record
made = dataclasses.replace(made, record=dataclasses.replace(
    record,
    target=dataclasses.replace(record.target, processes=2),
    requires=dataclasses.replace(record.requires, processes=2)))
alone = build("alone", spread, {"x": x})
whole = build("whole", lambda x: x.sum(), {"x": x}, mesh={"data": 4})
whole = dataclasses.replace(whole, record=dataclasses.replace(
    whole.record,
    target=dataclasses.replace(whole.record.target, processes=2),
    requires=dataclasses.replace(whole.record.requires, processes=2)))
pad = Padding((PaddedDim("n", 0),), ((16,),), (((0, 0),),), (((0, 0),),))
grown = build("grown", lambda x: x * 2, {"x": np.zeros(16, "float32")})
grown = dataclasses.replace(grown, function=dataclasses.replace(grown.function, pad=pad))
if rank == 0:
    write(root / "made", [made, alone, whole, grown])
    (root / "made").rename(root / "done")
while not (root / "done").exists():
    time.sleep(0.01)
unplaced = jax.numpy.asarray(x)
events = []
jax.monitoring.register_event_duration_secs_listener(lambda name, *a, **k: events.append(name))
library = aotbuild.load(root / "done" / "_aot")
def sharding(devices):
    return NamedSharding(Mesh(np.array(devices), ("data",)), P("data"))
def put(devices):
    return jax.make_array_from_callback(x.shape, sharding(devices), lambda index: x[index])
def refusal(value, kernel=library.spread):
    try:
        return str(kernel(value)) and "no refusal"
    except aotbuild.errors.AotbuildError as err:
        return str(err)
devices = jax.devices()
given = put(devices)
expected = (x * 2 + x.sum()).reshape(4, 2)
found = []
for kernel in (library.spread, library.spread, library.on(sharding(devices)).spread):
    shards = kernel(given).addressable_shards
    found.append([s.data.tolist() for s in shards] == expected[2 * rank: 2 * rank + 2].tolist())
found.append(library.alone(x).tolist() == expected.reshape(-1).tolist())
for value in (x, unplaced):
    found.append(float(library.whole(value)) == float(x.sum()))
mixed = refusal(put([devices[i] for i in (0, 2, 1, 3)]))
plain = refusal(x)
there = [d for d in devices if d.process_index != rank]
try:
    library.on(there)
except aotbuild.errors.AotbuildError as err:
    other = str(err)
os.environ["AOTBUILD_FALLBACK"] = "jit"
not_padded = refusal(given, library.grown)
compiled = sum(name.startswith("/jax/core/compile") for name in events)
print(json.dumps([found, compiled, mixed, plain, other, library.stats()["loaded"], not_padded]))
"""


@contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a port that nothing else is given meanwhile, but who asks for it may share (gRPC)."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("localhost", 0))
        yield holder.getsockname()[1]


def test_several_processes(tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    environment = clean_environment(
        PYTHONPATH=os.pathsep.join([str(tests), str(tests.parent)]),
        XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )
    with reserved_port() as port:
        started = [
            subprocess.Popen(
                [sys.executable, "-c", PROCESSES, str(rank), str(port), str(tmp_path)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for rank in (0, 1)
        ]
        ended = [process.communicate(timeout=300) for process in started]
    for rank, (out, err) in enumerate(ended):
        assert started[rank].returncode == 0, err
        found, compiled, mixed, plain, other, loaded, not_padded = json.loads(out.splitlines()[-1])
        assert (found, compiled, loaded) == ([True] * 6, 0, 3)
        assert "found    processes 0, 1, 0, 1" in mixed
        assert "expected 2 devices of each of 2 processes, one process after the other" in mixed
        assert "argument x\n  expected an array over all processes: NamedSharding" in plain
        assert "jax.make_array_from_process_local_data(sharding, x)" in plain
        assert f"expected a device of this process ({rank})" in other
        assert "expected an array that is all in this process" in not_padded
        assert "fallback jit: nowhere:nothing is not importable" in not_padded
