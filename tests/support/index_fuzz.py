"""Valid indexes to mutate, and everything that is done with an index before a blob is read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from aotbuild.format import index as index_module
from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.format.index import Index, write_index
from aotbuild.format.record import Golden, Record
from aotbuild.format.signature import Signature
from aotbuild.format.target import Target
from aotbuild.platforms.base import Host
from aotbuild.report import facts as report
from aotbuild.report import text
from aotbuild.report.document import package_document
from aotbuild.runtime.compatibility import select
from support.records import HEADER, make_function, make_record


def nested(depth: int) -> list[Any]:
    """Return a list in a list in a list."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


HOST = Host("cpu", 1, ("cpu",), 1, "x86_64", frozenset(), "0.10.2", x64=False)


class Memory:
    """A source whose every file is one index."""

    path = "memory"

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, name: str, limit: int = -1) -> bytes:
        return self._data if limit < 0 else self._data[:limit]

    def close(self) -> None:
        pass


def use(data: bytes) -> None:
    """Do with an index what `load`, `explain` and `inspect` do before a blob is read."""
    index = Index.open(data, "index")
    for function in list(index.functions()):
        assert index.function(function.name) == function
        for verdict in select(index.records(function.name), HOST):
            str(verdict).encode()
            assert all(0 <= blob.size < 1 << 62 for blob in verdict.record.blobs())
    index.function("\ud800")
    found = report.read_facts(Memory(data))
    package_document(found)
    lines = [*text.title_lines(found), text.total_line(found)]
    for function_facts in found.functions:
        lines += [text.function_line(function_facts), *text.aval_lines(function_facts, full=True)]
        text.executable_rows(function_facts)
    text.constant_rows(found), text.setting_rows(found)
    "\n".join(lines).encode()


# --- valid indexes to begin with ------------------------------------------------------------------


def rich_record() -> Record:
    """Return a record with every kind of tree node and encoded value."""
    plain = make_record()
    node = ["node", "m:N", {"name": "m:f"}, ["namedtuple", "m:T", "*"]]
    args = ["tuple", ["dict", [{"tuple": [1]}, {"tuple": [1, "a"]}], "*", ["none"]]]
    tree = ["tuple", args, ["dict", ["s"], node]]
    statics = (
        ("a", {"dict": [["k", {"bytes": "00ff"}], [1, {"complex": [1.0, {"float": "inf"}]}]]}),
        ("b", {"enum": ["m:E", "X"]}),
        ("c", [1, 1.5, None, "é"]),
        ("d", {"object": ["m:C", [["x", 1]]]}),
    )
    out_tree = ["tuple", ["input", [0, 0]], ["list", "*"]]
    calling = replace(plain.calling, out_tree=out_tree, outputs=plain.signature.leaves)
    return replace(
        plain,
        signature=Signature(tree, plain.signature.leaves, statics),
        calling=replace(calling, out_specs=(("d",), ())),
        golden=Golden(((0, plain.blob),), plain.blob, 1e-5, None),
    )


def portable_record() -> Record:
    plain = make_record()
    requires = replace(plain.requires, platforms=("cpu", "tpu"), isa=None, jaxlib=None)
    provenance = {"symbolic_leaves": ["f32[b, 2]", "~f32[]"], "label": "f(b=b)", "config": {"x": 1}}
    return replace(
        plain, target=Target("portable", "cpu,tpu", 2), requires=requires, provenance=provenance
    )


RECORDS = [make_record(), make_record(batch=8), rich_record(), portable_record()]
INDEX = write_index(HEADER, [make_function(), make_function("g")], [*RECORDS, make_record("g")])
OTHER = write_index({**HEADER, "package": "other"}, [make_function("h")], [make_record("h")])
FUNCTION = make_function().to_json()
ZEROS = "0" * 32
HEAD_AT = len(index_module.MAGIC) + 2 + 65


def dumped(value: Any) -> bytes:
    """Return canonical JSON; of what has none, the nearest that a parser may take."""
    try:
        return canonical_json(value)
    except ValueError:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def with_fresh_digests(objects: list[tuple[str, bytes]], header: Any = HEADER) -> bytes:
    """Return an index whose digests all fit, whatever the objects are."""
    rows, body = b"", b""
    for key, data in sorted(objects):
        rows += f"{key} {len(body):012x} {len(data):08x} {sha256_hex(data)}\n".encode()
        body += data + b"\n"
    if isinstance(header, dict):
        header = {"objects": len(body), "rows": len(objects), **header}
    return vouched(dumped(header) + b"\n" + rows) + body


def vouched(head: bytes) -> bytes:
    return index_module.MAGIC + b"1\n" + sha256_hex(head).encode() + b"\n" + head


def objects_of(record: Any, function: Any = FUNCTION) -> list[tuple[str, bytes]]:
    """Return a record and its function under the keys that belong to them, where they have one."""
    name = record.get("function") if isinstance(record, dict) else None
    group = sha256_hex(str(name).encode("utf-8", "replace"))[:16]
    signature = record.get("signature") if isinstance(record, dict) else None
    key = sha256_hex(dumped(signature))[:32]
    return [(group + key, dumped(record)), (group + ZEROS, dumped(function))]
