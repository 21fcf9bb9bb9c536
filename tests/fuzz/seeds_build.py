"""Seeds of what builds and releases read; `seeds.py` writes them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator

import yaml
from support import index_fuzz
from support.manifest_fuzz import SMALL

from aotbuild.store.entry import Entry, write_entry
from aotbuild.wheels.wheel_files import _record_hash as record_hash

Seeds = Iterator[tuple[str, bytes]]

MANIFEST = SMALL.replace(
    "[cpu, {portable: {platforms: [cpu]}}]",
    "[cpu, {portable: {platforms: [cpu]}}, {cpu: {isa: [x86-64-v3, x86-64-v4]}}]",
)
MANIFEST += "fallback: none\n"
PADDED = """\
version: 1
package: p
functions:
  g:
    call: p.m:g
    args: [x: "f32[n, 3]", w: "f32[3]"]
    dims:
      n: [4, 8]
    pad: {n: 0.0}
    verify: {golden: always, rtol: 1.0e-05}
    config: {jax_enable_x64: false}
  h: {call: "p.m:h", args: [x: {tuple: ["f32[2]", {dict: {a: "i32[]"}}]}]}
"""


def manifest() -> Seeds:
    yield "flow", MANIFEST.encode()
    yield "padded", PADDED.encode()
    yield "unfinished", PADDED.replace('"f32[n, 3]"', "TODO").encode()
    tree = yaml.safe_load(MANIFEST)
    yield "blocks", yaml.safe_dump(tree, sort_keys=False).encode()


def store_entry() -> Seeds:
    yield "time", write_entry("0" * 64, Entry({"seconds": 1.5}, b""))
    yield "split", write_entry("0" * 64, Entry({"numbers": [1, 2, 1], "local": True}, b""))
    yield "executable", write_entry("0" * 64, Entry({"requires": {"isa": "x86-64-v3"}}, b"bytes"))


METADATA = """\
Metadata-Version: 2.4
Name: p
Version: 1
Requires-Python: >=3.11
Requires-Dist: aotbuild>=0.1,<0.2
Requires-Dist: jaxlib==0.10.2; sys_platform == "linux"
Requires-Dist: x[a]>=1 ; extra == 'cuda'
Provides-Extra: cuda

Text.
"""
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: cp311-cp311-manylinux_2_27_x86_64\n"


def _members(aot: bytes) -> dict[str, bytes]:
    files = {"p/__init__.py": b"", "p/_aot/index": aot}
    files |= {"p-1.dist-info/METADATA": METADATA.encode(), "p-1.dist-info/WHEEL": WHEEL.encode()}
    rows = [f"{name},{record_hash(data)},{len(data)}" for name, data in files.items()]
    text = "\n".join([*rows, "p-1.dist-info/RECORD,,", ""])
    return {**files, "p-1.dist-info/RECORD": text.encode()}


def wheel() -> Seeds:
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", method) as archive:
            for path, data in _members(index_fuzz.OTHER).items():
                archive.writestr(zipfile.ZipInfo(path), data, method)
        yield name, packed.getvalue()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive, archive.open("a", "w", force_zip64=True) as file:
        file.write(b"zip64")
    yield "zip64", packed.getvalue()
