"""Wheels made by hand: an honest one, and what an attacker or a broken disk makes of it."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from support.packages import Built, build, portable

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import write_index
from aotbuild.format.record import Blob
from aotbuild.verify.api import verify
from aotbuild.verify.outcome import Outcome, Report

NAME = "demo-1.0-py3-none-any.whl"
INFO = "demo-1.0.dist-info"
AOT = "demo/_aot"
REQUIRES = ("aotbuild>=0.1,<0.2", f"jaxlib=={jaxlib.__version__}", "flatbuffers")
Files = dict[str, bytes]


def make_records() -> list[Built]:
    """Compile two functions, one with a hoisted constant, and export one."""
    double = build("double", _double, {"x": np.zeros(3, np.float32)})
    weights = np.arange(6, dtype=np.float32).reshape(3, 2)
    product = build(
        "product", _product, {"x": np.zeros((2, 3), np.float32)}, constants={"w": weights}
    )
    return [double, product, portable(double, _double)]


def _double(x: jax.Array) -> jax.Array:
    return jnp.sin(x) * 2


def _product(x: jax.Array, w: jax.Array) -> jax.Array:
    return x @ w


def aot_files(built: Iterable[Built]) -> Files:
    """Return the files of an `_aot` folder, relative to it."""
    built = list(built)
    functions = {item.function.name: item.function for item in built}.values()
    header = {"package": "demo", "fallback": "none", "jaxlib": jaxlib.__version__}
    index = write_index(header, functions, [item.record for item in built])
    blobs = {path: data for item in built for path, data in item.blobs.items()}
    return {"index": index, **blobs}


def write_folder(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write files below a folder and return it."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def wheel_files(aot: Mapping[str, bytes], requires: Iterable[str] = REQUIRES) -> Files:
    """Return the files of an honest wheel, RECORD excepted."""
    lines = ["Metadata-Version: 2.4", "Name: demo", "Version: 1.0"]
    metadata = "\n".join([*lines, *(f"Requires-Dist: {line}" for line in requires), "", ""])
    return {
        "demo/__init__.py": b"",
        **{f"{AOT}/{name}": data for name, data in aot.items()},
        f"{INFO}/METADATA": metadata.encode(),
        f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }


def record_of(files: Mapping[str, bytes]) -> bytes:
    """Return the RECORD of files."""
    rows = [f"{name},{hash_of(data)},{len(data)}" for name, data in files.items()]
    return "\n".join([*rows, f"{INFO}/RECORD,,", ""]).encode()


def hash_of(data: bytes) -> str:
    """Return a hash as RECORD writes it."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return f"sha256={digest.rstrip(b'=').decode()}"


def with_record(files: Files) -> Files:
    """Return files and a RECORD that fits them."""
    return {**files, f"{INFO}/RECORD": record_of(files)}


def write_wheel(path: Path, members: Iterable[tuple[str | zipfile.ZipInfo, bytes]]) -> Path:
    """Write a zip with these members in this order; nothing about them is checked."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in members:
            archive.writestr(name, data)
    return path


def edit(path: Path, change: Callable[[bytearray], bytes | bytearray]) -> Path:
    """Replace the bytes of a file by what `change` makes of them."""
    path.write_bytes(change(bytearray(path.read_bytes())))
    return path


def local_at(data: bytes | bytearray, name: str) -> int:
    """Return where the local header of a member begins."""
    return bytes(data).index(name.encode()) - 30


def central_at(data: bytes | bytearray, name: str) -> int:
    """Return where the central header of a member begins."""
    return bytes(data).rindex(name.encode()) - 46


def put(data: bytearray, offset: int, form: str, *values: int) -> bytearray:
    """Overwrite bytes with packed numbers."""
    struct.pack_into(form, data, offset, *values)
    return data


def with_other_bytes(built: Built, data: bytes) -> Built:
    """Return a record whose executable is `data`, with a fresh digest."""
    blob = Blob(built.record.blob.kind, sha256_hex(data), len(data))
    blobs = {p: d for p, d in built.blobs.items() if p != built.record.blob.path}
    return dataclasses.replace(
        built, record=dataclasses.replace(built.record, blob=blob), blobs={**blobs, blob.path: data}
    )


def bytes_of(built: Built) -> bytes:
    """Return the executable of a record."""
    return built.blobs[built.record.blob.path]


def check(place: Path, **options: object) -> Report:
    """Verify a place; the report must also be writable as JSON."""
    report = verify(str(place), **{"load": False, **options})  # type: ignore[arg-type]
    json.dumps([[o.check, o.subject, o.status.value, *o.reasons] for o in report.outcomes])
    return report


def failures(report: Report) -> dict[str, str]:
    """Return the reasons of each check that failed."""
    return {o.check: "\n".join(o.reasons) for o in report.outcomes if o.status.is_failure}


def loads(report: Report) -> dict[str, Outcome]:
    """Return the outcome of loading each record."""
    return {o.subject: o for o in report.outcomes if o.check == "load"}
