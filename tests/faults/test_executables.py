"""Executables in spellings that XLA reads and never writes, in which a lie may hide."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from damage.forks import Forks
from faults import lies
from faults.lies import BACKENDS, Edit
from support.cli import invoke

from aotbuild.format import protobuf
from aotbuild.format.protobuf import Field, bytes_field

pytestmark = [pytest.mark.process, pytest.mark.cause(5)]
FAILED = 9  # docs/reference/cli.md: a check failed
# From the message behind the head of an executable to another.
Rewrite = Callable[[bytes], bytes]

# What XLA reads of an executable: its compilation result, the module and its configuration.
_MODULE = (1, 1, 1)
_COMPUTATIONS, _PROGRAM, _INSTRUCTIONS, _METADATA, _CALLED = 3, 4, 2, 7, 28
_RESULT = 2
# Field 100, the start and the end of a group, which is empty.
_GROUP = bytes.fromhex("a306a406")


def inside(path: tuple[int, ...], rewrite: Rewrite) -> Rewrite:
    """Return a rewrite of the messages at a path of field numbers."""

    def change(data: bytes) -> bytes:
        if not path:
            return rewrite(data)

        def deeper(field: Field) -> bytes | None:
            if field.number != path[0] or not isinstance(field.value, bytes):
                return None
            return bytes_field(path[0], inside(path[1:], rewrite)(field.value))

        return protobuf.changed(data, deeper)

    return change


def again(number: int) -> Rewrite:
    """Return a rewrite that repeats a field of a message with nothing in it: XLA merges the two."""
    return lambda data: data + bytes_field(number, b"")


def large(instruction: bytes) -> bytes:
    """Return an instruction that calls something with 70,000 bytes of a name."""
    if b"lapack_" not in instruction:
        return instruction
    return instruction + bytes_field(_METADATA, bytes_field(2, b"x" * 70_000))


def long_winded(instruction: bytes) -> bytes:
    """Return an instruction with more bytes than needed for the length of what it calls."""

    def change(field: Field) -> bytes | None:
        if field.number != _CALLED:
            return None
        size = len(field.message)
        assert size < 128
        return bytes([0xE2, 0x81, 0, size | 128, 128, 0]) + field.message

    return protobuf.changed(instruction, change)


def rewritten(honest: Path, place: Path, name: str, rewrite: Rewrite, edit: Edit) -> Path:
    """Write a package of a function whose executable is rewritten, and return its `_aot` folder."""
    blobs: dict[str, bytes] = {}

    def change(record: Any) -> None:
        kind, sha256, _ = record["blob"]
        data = (honest / "blobs" / f"{sha256}.{kind}").read_bytes()
        size, at = protobuf.varint(data, 0)
        data = data[: at + size] + rewrite(data[at + size :])
        sha256 = hashlib.sha256(data).hexdigest()
        blobs[f"{sha256}.{kind}"] = data
        record.update(blob=[kind, sha256, len(data)], golden=None)
        edit(record)

    folder = lies.edited(honest, place, name, change)
    for file, data in blobs.items():
        (folder / "blobs" / file).write_bytes(data)
    return folder


def nothing(_: Any) -> None:
    """Leave a record as it is."""


def of_4096(record: Any) -> None:
    record["calling"]["outputs"] = ["bf16[4096]"]


def without_calls(record: Any) -> None:
    record["requires"]["custom_calls"] = []


SPELLINGS: dict[str, Rewrite] = {
    "a group": lambda data: _GROUP + data,
    "a group in the module": inside(_MODULE, lambda data: _GROUP + data),
    "a group in the shapes": inside((*_MODULE, _PROGRAM), lambda data: data + _GROUP),
    "two results of compiling": again(1),
    "two modules": inside(_MODULE[:2], again(1)),
    "two configurations": inside(_MODULE[:2], again(2)),
    "two programs": inside(_MODULE, again(_PROGRAM)),
    "two results": inside((*_MODULE, _PROGRAM), again(_RESULT)),
    "a number without an end": lambda data: data + b"\xff" * 11,
    "bytes that are missing": lambda data: data[:-1],
}


@pytest.mark.parametrize("arrays", BACKENDS)
@pytest.mark.parametrize("edit", [nothing, of_4096], ids=["honest", "lying"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_what_jaxlib_never_writes(
    spelling: str,
    edit: Edit,
    arrays: str,
    honest: Path,
    forks: dict[str, Forks],
    tmp_path: Path,
) -> None:
    """With the record's lie, bf16[4096] for 16 bytes gave bytes of the heap."""
    place = rewritten(honest, tmp_path, "narrow", SPELLINGS[spelling], edit)
    answer = forks[arrays].told(place, ["narrow"])
    assert answer.startswith("refused: DamagedBlob: narrow"), answer
    assert "expected an executable of jaxlib" in answer


CALLS: dict[str, Rewrite] = {
    "in an instruction of 70 kB": inside((*_MODULE, _COMPUTATIONS, _INSTRUCTIONS), large),
    "with a long-winded length": inside((*_MODULE, _COMPUTATIONS, _INSTRUCTIONS), long_winded),
}


@pytest.mark.parametrize("arrays", BACKENDS)
@pytest.mark.parametrize("edit", [nothing, without_calls], ids=["honest", "lying"])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_of_lapack(
    call: str, edit: Edit, arrays: str, honest: Path, forks: dict[str, Forks], tmp_path: Path
) -> None:
    """LAPACK that nobody initialized ended the process."""
    place = rewritten(honest, tmp_path, "factor", CALLS[call], edit)
    answer = forks[arrays].told(place, ["factor"])
    if edit is nothing:
        assert answer == "right"
    else:
        assert answer.startswith("refused: InvalidIndex: factor"), answer
        assert "requires.custom_calls: the index is damaged" in answer


@pytest.mark.parametrize("arrays", BACKENDS)
@pytest.mark.parametrize("target", ["cuda:h100-sxm:1", "tpu:v5e:1x1:1", "portable:cpu:1"])
def test_a_target_of_another_platform(
    target: str, arrays: str, honest: Path, forks: dict[str, Forks], tmp_path: Path
) -> None:
    """Executables of other platforms are not looked into, and this one ran here."""

    def edit(record: Any) -> None:
        record["target"] = target
        of_4096(record)

    answer = forks[arrays].told(lies.edited(honest, tmp_path, "narrow", edit), ["narrow"])
    assert answer.startswith("refused: InvalidIndex: "), answer
    assert f"is for {target}, but requires" in answer


def test_as_it_was_built(honest: Path, forks: dict[str, Forks], tmp_path: Path) -> None:
    """The rewriting itself changes nothing."""
    same = inside((*_MODULE, _COMPUTATIONS, _INSTRUCTIONS), lambda data: data)
    for number, arrays in enumerate(BACKENDS):
        place = rewritten(honest, tmp_path / str(number), "factor", same, nothing)
        assert forks[arrays].told(place, ["factor"]) == "right"


@pytest.mark.parametrize(
    ("name", "edit", "says"),
    [
        ("narrow", of_4096, "calling.outputs[0]"),
        ("factor", without_calls, "requires.custom_calls"),
    ],
)
def test_a_lie_that_verify_finds_without_loading(
    name: str, edit: Edit, says: str, honest: Path, tmp_path: Path
) -> None:
    place = lies.edited(honest, tmp_path, name, edit)
    ended = invoke("verify", place, "--no-run")
    assert ended.exit_code == FAILED, ended.output
    assert says in ended.output
