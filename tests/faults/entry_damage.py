"""What may stand in the place of an entry of the store: `DAMAGE[NAME](path, raw)` makes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from aotbuild.format.canonical import sha256_hex
from aotbuild.store.entry import Entry, write_entry
from aotbuild.store.keys import key_of

KEY, OTHER = key_of({"a": 1}), key_of({"a": 2})
ENTRY = Entry({"flops": 2.0}, b"code" * 5000)
RAW = write_entry(KEY, ENTRY)
Damage = Callable[[Path], object]


def of_bytes(raw: bytes) -> Damage:
    return lambda path: path.write_bytes(raw)


def instead(make: Damage) -> Damage:
    """Return what replaces the file by something else."""

    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


def body(facts: bytes) -> bytes:
    """Return an entry with a body of any bytes, under a digest that fits."""
    head = f"aotbuild-entry 2\nkey {KEY}\nbody {len(facts)} {sha256_hex(facts)}\n\n"
    return head.encode() + facts


def linked(make: Damage) -> Damage:
    """Return what replaces the file by a link to something else."""

    def damage(path: Path) -> None:
        target = path.with_name("target")
        make(target)
        path.symlink_to(target)

    return instead(damage)


def folder_with_a_file(path: Path) -> None:
    path.mkdir()
    (path / "mine").touch()


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.write(RAW)
        file.truncate(1 << 40)


def blocked_aside(path: Path) -> None:
    path.write_bytes(RAW[:-1])
    folder_with_a_file(path.with_suffix(".damaged"))


_SIZE = str(len(RAW.split(b"\n\n", 1)[1])).encode()
BYTES = {
    "nothing": b"",
    "zeros": bytes(4096),
    "a cut head": RAW[:40],
    "a head alone": RAW.split(b"\n\n")[0] + b"\n\n",
    "a cut body": RAW[:-1],
    "a longer body": RAW + b"x",
    "a much longer body": RAW + bytes(1 << 20),
    "another digest": RAW[:-1] + b"x",
    "another entry": write_entry(OTHER, ENTRY),
    "its key in capitals": RAW.replace(KEY.encode(), KEY.upper().encode()),
    "the key of another": RAW.replace(KEY.encode(), OTHER.encode()),
    "another format": RAW.replace(b"aotbuild-entry 2", b"aotbuild-entry 3"),
    "the ends of lines of Windows": RAW.replace(b"\n", b"\r\n"),
    "a size of a petabyte": RAW.replace(_SIZE, b"999999999999999", 1),
    "a size below zero": RAW.replace(_SIZE, b"-1", 1),
    "a signature that is none": RAW.replace(b"\n\n", b"\ned25519 ab cd\n\n", 1),
    "a thousand signatures": RAW.replace(
        b"\n\n", b"\n" + (b"ed25519 " + b"ab" * 32 + b" " + b"A" * 86 + b"==\n") * 1000 + b"\n", 1
    ),
    "no facts": body(b""),
    "facts without an end": body(b'{"flops": 2.0}'),
    "facts that are no JSON": body(b"{flops}\ncode"),
    "facts that are a list": body(b"[]\ncode"),
    "facts that are nothing": body(b"null\ncode"),
    "facts nested deeply": body(b'{"a":' * 100_000 + b"\ncode"),
    "facts with a number of 5000 digits": body(b'{"a":' + b"9" * 5000 + b"}\ncode"),
    "facts in another encoding": body(b'{"a":"\xff\xfe"}\ncode'),
}
# What is no file, and is removed.
REMOVED = {
    "a pipe": instead(os.mkfifo),
    "a link to nowhere": instead(lambda path: path.symlink_to("nowhere")),
    "a link to itself": instead(lambda path: path.symlink_to(path)),
    "a link to a folder": instead(lambda path: path.symlink_to(path.parent)),
    "a link to a pipe": linked(os.mkfifo),
    "a link to zeros without end": instead(lambda path: path.symlink_to("/dev/zero")),
    "an empty folder": instead(lambda path: path.mkdir()),
}
DAMAGE: dict[str, Damage] = {
    **{name: of_bytes(raw) for name, raw in BYTES.items()},
    **REMOVED,
    "a terabyte of zeros behind it": sparse,
    "a link to another file": linked(of_bytes(b"mine")),
    "a folder where it is set aside": blocked_aside,
}
# Nobody removes what may be somebody's.
UNHEALED: dict[str, Damage] = {"a folder with a file": instead(folder_with_a_file)}
