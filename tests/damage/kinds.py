"""What can happen to bytes: each kind takes a random generator and returns damaged files."""

from __future__ import annotations

import random
from collections.abc import Callable

from aotbuild.format.index import INDEX_NAME

Files = dict[str, bytes]
Damage = Callable[[random.Random, bytes], bytes]


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


FOLDER: dict[str, Callable[[random.Random, Files], Files]] = {
    **{name: one_file(damage) for name, damage in BYTES.items()},
    "swapped blobs": swapped,
    "edited index": edited_index,
}
