"""The index: `load`, `explain` and `inspect` read it whole, or raise one of aotbuild's errors."""

import json
import random
import re
import sys

import atheris
from support.mutators import mutate_json

with atheris.instrument_imports(include=["aotbuild"]):
    from support import index_fuzz

    from aotbuild.errors import AotbuildError
    from aotbuild.format import index as index_module
    from aotbuild.format.canonical import sha256_hex
    from aotbuild.format.dist_info import folder_in_wheel
    from aotbuild.format.index import Index, write_index
    from aotbuild.format.record_json import record_digest

_HEAD = re.compile(rb"aotbuild-index [0-9]+\n([^\n]{64})\n")
_ROW = 136


def with_right_digests(data: bytes) -> bytes:
    """Return an index whose digests fit, as far as it has the form of one.

    Whoever tampers with an index computes them, too; and no fuzzer finds a SHA-256.
    """
    found = _HEAD.match(data)
    end = data.find(b"\n", found.end()) if found else -1
    if not found or end < 0:
        return data
    try:
        header = index_module.read_canonical(data[found.end() : end])
        rows = index_module._count(header, "rows")
    except ValueError:
        return data
    start, stop = end + 1, end + 1 + rows * _ROW
    if stop > len(data):
        return data
    table = bytearray(data[start:stop])
    for at in range(0, len(table), _ROW):
        try:
            offset, size = int(table[at + 49 : at + 61], 16), int(table[at + 62 : at + 70], 16)
        except ValueError:
            continue
        digest = sha256_hex(data[stop + offset : stop + offset + size]).encode()
        table[at + 71 : at + 135] = digest
    vouched = data[found.end() : start] + bytes(table)
    digest = sha256_hex(vouched).encode()
    return data[: found.start(1)] + digest + b"\n" + vouched + data[stop:]


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Change the header or an object as JSON, and write the index with rows that fit; or bytes."""
    rng = random.Random(seed)
    try:
        index = Index.open(with_right_digests(data), "index")
        places = [index._place(row) for row in range(index.row_count)]
    except AotbuildError:
        return atheris.Mutate(data, max_size)
    objects = [(key, index._bytes(start, end)) for key, start, end, _ in places]
    header = {k: v for k, v in index.header.items() if k not in ("rows", "objects")}
    at = rng.randrange(len(objects) + 2)
    if at < len(objects):
        objects[at] = changed(*objects[at], max_size, seed)
    elif at == len(objects):
        header = canonical(mutate_json(index_fuzz.dumped(header), max_size, seed))
    else:
        return atheris.Mutate(data, max_size)
    found = index_fuzz.with_fresh_digests(objects, header)
    return found if len(found) <= max_size else data


def changed(key: str, data: bytes, max_size: int, seed: int) -> tuple[str, bytes]:
    """Return an object with other contents, under the key that belongs to it if it has one."""
    value = canonical(mutate_json(data, max_size, seed))
    if key.endswith(index_fuzz.ZEROS):
        name = value.get("name") if isinstance(value, dict) else None
        group = sha256_hex(str(name).encode("utf-8", "replace"))[:16]
        return group + index_fuzz.ZEROS, index_fuzz.dumped(value)
    return index_fuzz.objects_of(value)[0]


def canonical(data: bytes) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def TestOneInput(data: bytes) -> None:
    for each in {data, with_right_digests(data)}:
        try:
            index = Index.open(each, "index")
            functions = list(index.functions())
            records = [record for f in functions for record in index.records(f.name)]
            index_fuzz.use(each)
        except AotbuildError as err:
            str(err).encode()
            continue
        folder_in_wheel(index.header)
        extra = {k: v for k, v in index.header.items() if k not in ("rows", "objects")}
        again = Index.open(write_index(extra, functions, records), "again")
        if len(functions) + len(records) == index.row_count:
            # Keys that an object has besides are left out; records of a signature have no order.
            assert list(again.functions()) == functions
            found = [record for f in functions for record in again.records(f.name)]
            assert sorted(map(record_digest, found)) == sorted(map(record_digest, records))


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
