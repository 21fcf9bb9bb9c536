"""The index reader meets anything and ends in success or in a documented error."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from test_spec_index import HEADER, make_function, make_record, read_all

from aotbuild.errors import AotbuildError
from aotbuild.spec import index as index_module
from aotbuild.spec.canonical import canonical_json, sha256_hex
from aotbuild.spec.record_json import record_to_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every node below a JSON value."""
    found = [path] if path else []
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        found += places(child, (*path, key))
    return found


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    changed = copy.deepcopy(value)
    node = changed
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = new
    return changed


def with_fresh_digests(objects: list[tuple[str, bytes]]) -> bytes:
    """Return an index whose digests all fit, whatever the objects are."""
    rows, body = b"", b""
    for key, data in sorted(objects):
        rows += f"{key} {len(body):012x} {len(data):08x} {sha256_hex(data)}\n".encode()
        body += data + b"\n"
    head = canonical_json({**HEADER, "objects": len(body), "rows": len(objects)}) + b"\n"
    start = index_module.MAGIC + b"1\n" + sha256_hex(head + rows).encode() + b"\n"
    return start + head + rows + body


def must_end_well(data: bytes) -> None:
    with contextlib.suppress(AotbuildError):
        read_all(data)


RECORD = json.loads(canonical_json(record_to_json(make_record())))
FUNCTION = json.loads(canonical_json(make_function().to_json()))
GROUP = sha256_hex(b"f")[:16]
KEY = GROUP + make_record().signature.key()


@settings(max_examples=2000, deadline=None)
@given(st.sampled_from(places(RECORD)), JSON)
def test_edited_records_with_fresh_digests(path: tuple[Any, ...], new: Any) -> None:
    edited = replaced(RECORD, path, new)
    must_end_well(with_fresh_digests([(KEY, json.dumps(edited).encode())]))


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from(places(FUNCTION)), JSON)
def test_edited_functions_with_fresh_digests(path: tuple[Any, ...], new: Any) -> None:
    edited = replaced(FUNCTION, path, new)
    must_end_well(with_fresh_digests([(GROUP + "0" * 32, json.dumps(edited).encode())]))


@settings(max_examples=1000, deadline=None)
@given(st.binary(max_size=200))
def test_objects_that_are_not_json(data: bytes) -> None:
    must_end_well(with_fresh_digests([(KEY, data)]))


@settings(max_examples=1000, deadline=None)
@given(st.binary(min_size=1, max_size=200))
def test_rows_that_are_no_rows(rows: bytes) -> None:
    padded = (rows * 136)[:135] + b"\n"
    head = canonical_json({**HEADER, "objects": 0, "rows": 1}) + b"\n"
    start = index_module.MAGIC + b"1\n" + sha256_hex(head + padded).encode() + b"\n"
    must_end_well(start + head + padded)
