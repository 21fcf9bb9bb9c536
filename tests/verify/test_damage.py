"""Random damages: each ends as a reported failure, and the parent lives."""

from __future__ import annotations

import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from attacks import wheels
from attacks.wheels import Files, check, failures, loads

from aotbuild.verify.outcome import Status

Damage = Callable[[random.Random, bytearray], bytes]
SECONDS = 120.0  # a child that is slow to import jax has not been checked


def flip(chance: random.Random, data: bytearray) -> bytes:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(3)
    return bytes(data)


def truncate(chance: random.Random, data: bytearray) -> bytes:
    return bytes(data[: chance.randrange(len(data))])


def zero(chance: random.Random, data: bytearray) -> bytes:
    """Zero the block around a byte that is not zero."""
    at = chance.choice([i for i, byte in enumerate(data) if byte])
    return bytes(data[:at] + bytes(min(64, len(data) - at)) + data[at + 64 :])


def extend(chance: random.Random, data: bytearray) -> bytes:
    return bytes(data) + chance.randbytes(chance.randrange(1, 100))


DAMAGES: tuple[Damage, ...] = (flip, truncate, zero, extend)


@pytest.fixture(scope="module")
def aot() -> Files:
    return wheels.aot_files(wheels.make_records())


@pytest.fixture(scope="module")
def wheel_bytes(aot: Files, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("honest") / wheels.NAME
    files = wheels.with_record(wheels.wheel_files(aot))
    return wheels.write_wheel(path, files.items()).read_bytes()


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_wheel_fails(
    wheel_bytes: bytes, damage: Damage, seed: int, tmp_path: Path
) -> None:
    data = damage(random.Random(seed), bytearray(wheel_bytes))
    path = tmp_path / wheels.NAME
    path.write_bytes(data)
    report = check(path)
    # A date or a padding bit may differ: what is installed is the same.
    assert not report.passed or contents(path, data) == contents(path, wheel_bytes)


def contents(path: Path, data: bytes) -> Files:
    path.write_bytes(data)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_folder_fails(aot: Files, damage: Damage, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    name = chance.choice(sorted(aot))
    files = {**aot, name: damage(chance, bytearray(aot[name]))}
    found = failures(check(wheels.write_folder(tmp_path / "_aot", files)))
    assert found
    assert set(found) <= {"index", "blobs", "files"}


def test_swapped_blobs_fail(aot: Files, tmp_path: Path) -> None:
    first, second = [name for name in aot if name.endswith(".pjrt")][:2]
    files = {**aot, first: aot[second], second: aot[first]}
    found = failures(check(wheels.write_folder(tmp_path / "_aot", files)))
    assert list(found) == ["blobs"]
    assert found["blobs"].count("not the bytes that were built") == 2


def test_missing_blobs_fail(aot: Files, tmp_path: Path) -> None:
    files = {name: data for name, data in aot.items() if not name.endswith(".safetensors")}
    assert "no such file" in failures(check(wheels.write_folder(tmp_path / "_aot", files)))["blobs"]


@pytest.mark.parametrize("damage", DAMAGES[:3])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.process
def test_damage_with_fresh_digests_never_reaches_the_parent(
    damage: Damage, seed: int, tmp_path: Path
) -> None:
    """What digests cannot find is loaded in a child; a golden output may find it."""
    built = wheels.make_records()[0]
    data = damage(random.Random(seed), bytearray(wheels.bytes_of(built)))
    files = wheels.aot_files([wheels.with_other_bytes(built, data)])
    report = check(wheels.write_folder(tmp_path / "_aot", files), load=True, timeout=SECONDS)
    (outcome,) = loads(report).values()
    assert outcome.status is not Status.NOT_CHECKED
    assert outcome.reasons or outcome.status is Status.PASS
