"""One process to the second result, stage by stage: started by `first_call.py`. Imports no jax.

    python benchmarks/first_call_process.py ROOT EXECUTABLE WEIGHTS INPUTS CALLS

CALLS are the calls behind the second; with 0 there is one call only.
Prints a JSON object of stages in milliseconds, of wall clock and of CPU time of all threads.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

_STARTED = time.perf_counter(), time.process_time()


class Stages:
    """What has been marked: name to [wall ms, CPU ms]."""

    def __init__(self) -> None:
        self.found: dict[str, list[float]] = {"python": [0.0, _STARTED[1] * 1e3]}
        self._last = _STARTED

    def mark(self, name: str) -> None:
        """End a stage here, and begin the next one."""
        now = time.perf_counter(), time.process_time()
        self.found[name] = [(now[0] - self._last[0]) * 1e3, (now[1] - self._last[1]) * 1e3]
        self._last = time.perf_counter(), time.process_time()


def main() -> None:
    """Load, call, call again; print how long everything took."""
    root, executable_file, weights_file, inputs_file, calls = sys.argv[1:]
    sys.path.insert(0, root)
    stages = Stages()
    import numpy as np

    stages.mark("import numpy")
    from aotbuild.runtime.numpy import private as jaxlib_private

    stages.mark("import jaxlib")
    jaxlib_private.ensure_states(x64=False)
    device = jaxlib_private.make_host_client(None).local_devices()[0]
    stages.mark("client")
    arrays = _aligned(np, weights_file) + _aligned(np, inputs_file)
    stages.mark("read weights")
    data = Path(executable_file).read_bytes()
    executable = jaxlib_private.deserialize(data, device)
    stages.mark("load")
    inputs = [jaxlib_private.put(array, device) for array in arrays]
    stages.mark("put")
    run = _runner(jaxlib_private, executable, device)
    first = run(inputs)
    stages.mark("first call")
    later = [0.0, 0.0]
    if int(calls):
        run(inputs)
        stages.mark("second call")
        for _ in range(int(calls)):
            run(inputs)
        stages.mark("others")
        later = [value / int(calls) for value in stages.found.pop("others")]
    print(json.dumps({"stages": stages.found, "steady": later, "sum": float(np.abs(first).sum())}))


def _aligned(np: Any, file: str) -> list[Any]:
    """Return the arrays of a file that `first_call.py` wrote, mapped and aligned to 64 bytes."""
    words = np.memmap(file, np.uint8, "r")
    size = int(words[:8].view(np.uint64)[0])
    entries = json.loads(bytes(words[8 : 8 + size]))
    return [words[at : at + n].view(dtype).reshape(shape) for at, n, dtype, shape in entries]


def _runner(private: Any, executable: Any, device: Any) -> Any:
    """Return a function that runs an executable of one output and waits for it."""
    registry = private.make_registry()
    tree = private.make_treedef(registry, None, [])
    shape, dtype = (1, 64, 2048), "float32"
    import numpy as np

    def miss(*arrays: Any) -> Any:
        kept = [True] * len(arrays)
        outputs = [(shape, np.dtype(dtype))]
        data = private.fastpath_data(executable, device, outputs, tree, [], kept)
        return None, data, False

    dispatch = private.make_dispatch("call", miss, miss, [], [], registry)
    state: list[Any] = []

    def run(inputs: list[Any]) -> Any:
        if not state:
            # The first one only tells the C++ cache what to run.
            dispatch(*inputs)
            state.append(True)
        return np.asarray(dispatch(*inputs))

    return run


if __name__ == "__main__":
    main()
