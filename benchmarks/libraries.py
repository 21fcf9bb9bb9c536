"""What each system's main shared library costs to load: time, page faults, relocations.

A fresh process of the system's own Python does one dlopen, and nothing else is in the figures.
The numbers of relocations and constructors are read from the file.
"""

from __future__ import annotations

import json
import mmap
import struct
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.medians import paired
from benchmarks.places import HERE
from benchmarks.process import run_plain
from benchmarks.ready import Ready
from benchmarks.venvs import Unavailable

# Of each environment: the library that does the work, as a pattern below site-packages.
_LIBRARIES = {
    "jaxlib": "jaxlib/libjax_common.so",
    "iree": "iree/_runtime_libs/_runtime.*.so",
    "onnxruntime": "onnxruntime/capi/onnxruntime_pybind11_state.*.so",
    "openvino": "openvino/libs/libopenvino.so*",
    "torch": "torch/lib/libtorch_cpu.so",
}
# The tags of a dynamic section, elf(5): the bytes of .rela.dyn and of .init_array.
_RELOCATION_BYTES, _CONSTRUCTOR_BYTES = 8, 27
_RELOCATION_SIZE, _POINTER_SIZE, _DYNAMIC = 24, 8, 2


def measure_libraries(ready: Ready, rounds: int) -> dict[str, Any]:
    """Return `{"rows": […]}`: one row for each library that is there."""
    print("libraries: what loading them costs", flush=True)
    rows = []
    for environment, pattern in _LIBRARIES.items():
        try:
            rows.append(_measure(ready.python(environment), pattern, rounds))
        except Unavailable as err:
            print(f"  {environment}: not available: {err}", flush=True)
    with suppress(Unavailable):
        rows.append(_measure_beside(ready.python("jaxlib"), rounds))
    return {"rows": rows}


def _measure(python: Path, pattern: str, rounds: int) -> dict[str, Any]:
    library = _library(python, pattern)
    command = [str(python), str(HERE / "systems" / "open_library.py"), str(library)]
    # The first is not counted: it fills the page cache.
    _, *opened = [json.loads(run_plain(command)) for _ in range(rounds + 1)]
    return {
        "library": library.name.partition(".")[0],
        "MB": round(library.stat().st_size / 1e6),
        "ms": round(median(one["ms"] for one in opened), 1),
        "page_faults": round(median(one["faults"] for one in opened)),
        **costs_in(library),
    }


def _measure_beside(python: Path, rounds: int) -> dict[str, Any]:
    """Return what opening jaxlib's library beside `import numpy` changes, as a ratio of pairs."""
    library = _library(python, _LIBRARIES["jaxlib"])
    command = [str(python), str(HERE / "systems" / "import_beside.py"), str(library)]
    alone, beside = [], []
    for _ in range(2 * rounds):
        alone.append(json.loads(run_plain(command))["ms"])
        beside.append(json.loads(run_plain([*command, "thread"]))["ms"])
    ratio = paired(beside, alone).text()
    return {"library": "libjax_common, beside `import numpy`", "ratio": ratio}


def _library(python: Path, pattern: str) -> Path:
    return min(python.parents[1].glob(f"lib/python*/site-packages/{pattern}"))


def costs_in(library: Path) -> dict[str, int]:
    """Return the relocations and static constructors of a 64-bit little-endian ELF file."""
    with library.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    (table,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    tags: dict[int, int] = {}
    for index in range(count):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", content, table + index * size)
        if kind == _DYNAMIC:
            tags = dict(struct.iter_unpack("<QQ", content[offset : offset + length]))
    return {
        "relocations": tags.get(_RELOCATION_BYTES, 0) // _RELOCATION_SIZE,
        "constructors": tags.get(_CONSTRUCTOR_BYTES, 0) // _POINTER_SIZE,
    }
