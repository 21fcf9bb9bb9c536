"""Write the corpora: small valid files of each format, which harnesses begin with.

`python tests/fuzz/seeds.py` in an environment of the tests. Names of files are those of the lists
here; what a fuzzer found beside them stays in `.fuzz`, and what failed once in `findings`.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import seeds_build  # noqa: E402
from support import index_fuzz  # noqa: E402

from aotbuild.format.canonical import canonical_json  # noqa: E402
from aotbuild.format.record_json import record_to_json  # noqa: E402
from aotbuild.format.tensors import write_tensors  # noqa: E402

Seeds = Iterator[tuple[str, bytes]]


def index() -> Seeds:
    yield "rich", index_fuzz.INDEX
    yield "other", index_fuzz.OTHER
    yield "empty", index_fuzz.with_fresh_digests([])
    header = {**index_fuzz.HEADER, "companions": {"cuda": "p-cuda"}}
    yield "header", index_fuzz.with_fresh_digests([], header)


def record() -> Seeds:
    for name, found in zip(("plain", "batch", "rich", "portable"), index_fuzz.RECORDS, strict=True):
        yield name, canonical_json(record_to_json(found))
    plain = record_to_json(index_fuzz.RECORDS[2])
    plain["calling"] |= {"explicit_axes": ["a"], "templates": []}
    plain["requires"] |= {"custom_calls": [["lapack_ssyevd_ffi", "jax"]]}
    yield "explicit", canonical_json(plain)


TREES: dict[str, Any] = {
    "containers": [
        "tuple",
        ["list", "*", ["none"]],
        ["dict", ["a", 1, {"tuple": [1]}], "*", "*", "*"],
    ],
    "references": ["tuple", ["input", [0, 0]], ["like_input", [0, 1], "*", "*"], "*"],
    "ordered": ["node", "collections:OrderedDict", {"tuple": ["a", "b"]}, "*", "*"],
    "default": [
        "node",
        "collections:defaultdict",
        {"tuple": [{"name": "builtins:list"}, ["k"]]},
        "*",
    ],
    "marked": ["tuple", ["static", 1], ["shared", 0]],
    "named": ["namedtuple", "collections:Counter", "*"],
    "data": ["node", "fractions:Fraction", {"numpy": ["f32", [1], "0000803f"]}],
}


def values() -> Seeds:
    found = {
        "plain": [1, 1.5, None, True, "é", {"float": "nan"}],
        "containers": {
            "dict": [["k", {"bytes": "00ff"}], [{"tuple": [1]}, {"complex": [1.0, 2.0]}]]
        },
        "numpy": [
            {"numpy": ["f32", [1], "0000803f"]},
            {"numpy": ["bf16", "803f"]},
            {"dtype": "int8"},
        ],
        "names": [
            {"enum": ["enum:Enum", "A"]},
            {"name": "os:sep"},
            {"object": ["m:C", [["x", 1]]]},
        ],
        "trees": [{"treedef": ["tuple", "*"]}, {"ordered": [["a"], {"tuple": [1]}]}],
        "others": [{"set": [1, 2]}, {"fingerprint": ["m.f", "0" * 64]}, {"ignored": True}],
    }
    for name, value in found.items():
        yield name, canonical_json(value)


def tensors() -> Seeds:
    yield "two", write_tensors({"0": ("f4", (2,), b"\0" * 8), "1": ("u1", (3,), b"abc")})
    yield "constant", write_tensors({"constant": ("i8", (1, 1), b"12345678")})
    head = {
        "__metadata__": {"a": "b"},
        "x": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]},
    }
    text = json.dumps(head).encode()
    yield "metadata", struct.pack("<Q", len(text)) + text + b"1234"


def protobuf() -> Seeds:
    yield "executable", _executable()


def elf() -> Seeds:
    code = bytes.fromhex("c5fc28c0c3") + bytes.fromhex("62f17c4828c00f0bf30fb8c0")
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack("<HHIQQQ", 1, 62, 1, 0, 0, 64)
    head += struct.pack("<IHHHHHH", 0, 64, 0, 0, 64, 2, 0)
    text = struct.pack("<IIQQQQIIQQ", 1, 1, 4, 0, 192, len(code), 0, 0, 16, 0)
    nothing = struct.pack("<IIQQQQIIQQ", 1, 8, 3, 0, 192, 1 << 20, 0, 0, 1, 0)
    yield "object", head + text + nothing + code
    yield "embedded", b"kLoop" + head + text + nothing + code + b"\x7fELF\x02\x01\x01"


def cuda_bytes() -> Seeds:
    packed = bytes([2 << 2]) + b"abc" + bytes([(6 - 4) << 2 | 1, 3, (4 - 1) << 2 | 2, 9, 0])
    yield "snappy", bytes([13]) + packed
    body = b"s" + b"\1\5" + bytes([13, 13]) + packed
    head = b"".join(n.to_bytes(8, "little") for n in (0, len(body), 0, ord("r") | 256, 13))
    yield "chunk", bytes(24) + bytes(40) + head + body
    plain = b"\0\1\5" + b"x" * 30
    head = b"".join(n.to_bytes(8, "little") for n in (0, len(plain), 0, ord("r") | 256, 30))
    yield "plain", bytes(24) + bytes(40) + head + plain


def tuning_results() -> Seeds:
    entry = 'results { device: "CUDA: 9.0" hlo: "f(a)" result { gemm { algorithm: 7 } } }\n'
    yield "one", f"# measured on NVIDIA H100 by jax 0.10.2\nversion: 3\n{entry}".encode()
    yield "two", f"version: 3\n{entry}{entry.replace('f(a)', 'g(a)')}".encode()
    key = 'key { target { device: "69" hlo_fingerprint: "00cd" } }'
    value = 'value { optimal_config { backend: CUDNN } optimal_backend_version: "9.19.0" }'
    yield "entries", f"entries {{ {key} {value} }}\n".encode()


def _executable() -> bytes:
    import jax
    import jax.numpy as jnp

    return _compiled(lambda x: jax.lax.fori_loop(0, 3, lambda _, y: jnp.sin(y) @ y, x))


def _compiled(function: Callable[[Any], Any]) -> bytes:
    import jax
    import jax.numpy as jnp

    from aotbuild.worker import private

    compiled = jax.jit(function).lower(jnp.ones((2, 2))).compile()
    return private.serialize_executable(compiled)


def write(names: list[str]) -> None:
    """Write the corpora of these harnesses, or all."""
    makers = {**vars(seeds_build), **globals()}
    known = [path.stem.removeprefix("fuzz_") for path in sorted(HERE.glob("fuzz_*.py"))]
    for name in names or known:
        folder = HERE / "corpus" / name
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for label, data in makers[name]():
            (folder / label).write_bytes(data)
            print(f"{name}/{label}: {len(data)} bytes")


if __name__ == "__main__":
    write(sys.argv[1:])
