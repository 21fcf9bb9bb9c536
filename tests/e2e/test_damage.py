"""Hundreds of damages to a wheel and to what it installs, each loaded and called in a child.

None may end in a signal, a hang or a wrong number. What has fresh digests is consistent in itself,
and is not tried here: whoever writes a wheel can run code on import.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacks.wheels import hash_of
from damage.forks import Forks
from damage.kinds import BYTES, FOLDER, Files, swapped
from support.projects import copy_project

pytestmark = [
    pytest.mark.damage,
    pytest.mark.any_jax,
    pytest.mark.skipif(sys.platform != "linux", reason="forks and limits CPU time as Linux does"),
]

# Of each kind: 6 kinds in a folder, 4 in a wheel, and swapped members.
EACH = 20


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An honest wheel, built by hatchling with the hook."""
    project = copy_project("damage", tmp_path_factory.mktemp("project"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    subprocess.run(command, cwd=project, check=True, capture_output=True, text=True)
    (found,) = (project / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def honest(wheel: Path) -> Files:
    """The files of the installed `_aot` folder."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("damaged/_aot/")]
        return {name.removeprefix("damaged/_aot/"): archive.read(name) for name in names}


@pytest.fixture(scope="module")
def forks(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    cases = tmp_path_factory.mktemp("cases") / "cases.npz"
    code = Path(__file__).parents[1] / "damage" / "expected.py"
    subprocess.run([sys.executable, code, wheel.parent.parent, cases], check=True)
    server = Forks(cases)
    yield server
    server.close()


def write(folder: Path, files: Files) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def test_undamaged_is_right(wheel: Path, honest: Files, forks: Forks, tmp_path: Path) -> None:
    assert forks.ask(wheel) == "right"
    assert forks.ask(write(tmp_path / "_aot", honest)) == "right"


@pytest.mark.parametrize("kind", FOLDER)
def test_damaged_folder(kind: str, honest: Files, forks: Forks, tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    for seed in range(EACH):
        files = FOLDER[kind](random.Random(f"{kind} {seed}"), honest)
        found[forks.ask(write(tmp_path / "_aot", files))] += 1
    # Every byte of the folder is read, so nothing passes, unless the block was zero already.
    unchanged = {"right"} if kind == "zeroed block" else set()
    assert set(found) <= {"refused: InvalidIndex", "refused: DamagedBlob"} | unchanged
    assert found["right"] < EACH // 4


@pytest.mark.parametrize("kind", BYTES)
def test_damaged_wheel(kind: str, wheel: Path, forks: Forks, tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    place, data = tmp_path / wheel.name, wheel.read_bytes()
    for seed in range(EACH):
        place.write_bytes(BYTES[kind](random.Random(f"{kind} {seed}"), data))
        found[forks.ask(place)] += 1
    refused = {"refused: InvalidIndex", "refused: DamagedBlob", "refused: NoArtifacts"}
    assert set(found) <= {"right"} | refused
    # A zip may end in what is no zip, and what a wheel holds besides is not read by `load`.
    assert found["right"] < EACH or kind == "trailing bytes"


def test_swapped_members(wheel: Path, honest: Files, forks: Forks, tmp_path: Path) -> None:
    """Blobs change places in a wheel whose RECORD fits them: pip would install it."""
    found: Counter[str] = Counter()
    for seed in range(EACH):
        files = swapped(random.Random(f"members {seed}"), honest)
        found[forks.ask(repacked(wheel, files, tmp_path / wheel.name))] += 1
    assert set(found) == {"refused: DamagedBlob"}


def repacked(wheel: Path, files: Files, to: Path) -> Path:
    """Write a wheel with other files in `_aot`, and a RECORD that fits."""
    with zipfile.ZipFile(wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members |= {f"damaged/_aot/{name}": data for name, data in files.items()}
    record = next(name for name in members if name.endswith(".dist-info/RECORD"))
    del members[record]
    rows = [f"{name},{hash_of(data)},{len(data)}" for name, data in members.items()]
    members[record] = "\n".join([*rows, f"{record},,", ""]).encode()
    with zipfile.ZipFile(to, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return to
