"""What can happen to bytes: each kind takes a random generator and returns damaged files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.format.index import INDEX_NAME, Index

Files = dict[str, bytes]
Damage = Callable[[random.Random, bytes], bytes]
_MAGIC_LINES = 2


def bit(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def zeroed_block(chance: random.Random, data: bytes) -> bytes:
    start, size = chance.randrange(len(data)), chance.choice([8, 64, 512, 4096])
    block = data[start : start + size]
    return data[:start] + bytes(len(block)) + data[start + len(block) :]


def truncated(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data))]


def trailing(chance: random.Random, data: bytes) -> bytes:
    return data + chance.randbytes(chance.choice([1, 7, 1000]))


BYTES: dict[str, Damage] = {
    "bit": bit,
    "zeroed block": zeroed_block,
    "truncated": truncated,
    "trailing bytes": trailing,
}


def one_file(damage: Damage) -> Callable[[random.Random, Files], Files]:
    """Return what does a damage to one file of an `_aot` folder; blobs and index alike."""

    def damaged(chance: random.Random, files: Files) -> Files:
        name = chance.choice([INDEX_NAME, *sorted(files)])
        return {**files, name: damage(chance, files[name])}

    return damaged


def swapped(chance: random.Random, files: Files) -> Files:
    """Exchange two blobs, or put one in the place of another."""
    first, second = chance.sample([name for name in sorted(files) if name.startswith("blobs/")], 2)
    changed = {**files, first: files[second]}
    return {**changed, second: files[first]} if chance.random() < 0.5 else changed


def edited_index(chance: random.Random, files: Files) -> Files:
    """Change a printable character of the index into another one, digests left as they are."""
    data = bytearray(files[INDEX_NAME])
    at = chance.choice([i for i, byte in enumerate(data) if 32 <= byte < 127])
    data[at] = chance.choice([byte for byte in range(32, 127) if byte != data[at]])
    return {**files, INDEX_NAME: bytes(data)}


def exchanged_with_fresh_digests(chance: random.Random, files: Files) -> Files:
    """Let the record of a function name the blob of another; every digest fits again."""
    objects = _objects(files)
    records = [data for _, data in objects if "blob" in data]
    one, other = chance.sample(records, 2)
    while one["blob"] == other["blob"]:
        one, other = chance.sample(records, 2)
    one["blob"], other["blob"] = other["blob"], one["blob"]
    return {**files, INDEX_NAME: _with_fresh_digests(files, objects)}


def field_with_fresh_digests(chance: random.Random, files: Files) -> Files:
    """Change one number or word somewhere in a record; every digest fits again."""
    objects = _objects(files)
    places = [place for _, data in objects for place in _leaves(data)]
    holder, key = chance.choice(places)
    holder[key] = _another(chance, holder[key])
    return {**files, INDEX_NAME: _with_fresh_digests(files, objects)}


def blob_with_fresh_digests(chance: random.Random, files: Files) -> Files:
    """Damage a blob and mend its digest wherever it stands."""
    name = chance.choice([name for name in sorted(files) if name.startswith("blobs/")])
    damage = chance.choice(sorted(BYTES))
    data = files[name]
    while data == files[name]:
        data = BYTES[damage](chance, files[name])
    old, kind = name.removeprefix("blobs/").split(".")
    new = sha256_hex(data)
    objects = _objects(files)
    for _, record in objects:
        _replace_blob(record, old, new, len(data))
    changed = {k: v for k, v in files.items() if k != name}
    index = _with_fresh_digests(files, objects)
    return {**changed, INDEX_NAME: index, f"blobs/{new}.{kind}": data}


FOLDER: dict[str, Callable[[random.Random, Files], Files]] = {
    **{name: one_file(damage) for name, damage in BYTES.items()},
    "swapped blobs": swapped,
    "edited index": edited_index,
}
# Consistent in itself: no digest can tell. What does is a signature, or for some of it `verify`.
FRESH: dict[str, Callable[[random.Random, Files], Files]] = {
    "blobs exchanged, with fresh digests": exchanged_with_fresh_digests,
    "a field edited, with fresh digests": field_with_fresh_digests,
    "a blob damaged, with fresh digests": blob_with_fresh_digests,
}


def _another(chance: random.Random, value: Any) -> Any:
    """Return a value of the same type that is not the same."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice([n for n in (0, 1, value + 1, -value - 1, 2**40) if n != value])
    at = chance.randrange(len(value)) if value else 0
    others = [c for c in "0123456789abcfgx,[]" if c != value[at : at + 1]]
    return value[:at] + chance.choice(others) + value[at + 1 :]


def _objects(files: Files) -> list[tuple[str, Any]]:
    """Return the objects of an index with their keys."""
    data = files[INDEX_NAME]
    index = Index.open(data, INDEX_NAME)
    lines = data.split(b"\n")
    keys = [row.split(b" ")[0].decode() for row in lines[3 : 3 + index.row_count]]
    return list(zip(keys, map(json.loads, lines[3 + index.row_count : -1]), strict=True))


def _with_fresh_digests(files: Files, objects: list[tuple[str, Any]]) -> bytes:
    """Write the index anew, in its own format, from changed objects."""
    first, _, head = files[INDEX_NAME].split(b"\n")[:3]
    rows, body, offset = b"", b"", 0
    for key, value in objects:
        data = canonical_json(value)
        rows += f"{key} {offset:012x} {len(data):08x} {sha256_hex(data)}\n".encode()
        body += data + b"\n"
        offset += len(data) + 1
    header = canonical_json({**json.loads(head), "objects": offset}) + b"\n"
    vouched = header + rows
    return first + b"\n" + sha256_hex(vouched).encode() + b"\n" + vouched + body


def _leaves(data: Any) -> list[tuple[Any, Any]]:
    """Return every place that holds a number or a word, as its holder and its key."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    found = []
    for key, value in pairs:
        if isinstance(value, dict | list):
            found += _leaves(value)
        elif isinstance(value, bool | int | str):
            found.append((data, key))
    return found


def _replace_blob(data: Any, old: str, new: str, size: int) -> None:
    if isinstance(data, list) and len(data) == 3 and data[1] == old:
        data[1:] = [new, size]
    elif isinstance(data, dict | list):
        for value in data.values() if isinstance(data, dict) else data:
            _replace_blob(value, old, new, size)
