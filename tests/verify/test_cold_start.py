"""Cold starts, measured: in fresh processes, of what both packages have and this machine runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from attacks import wheels
from attacks.wheels import Built
from support import packages
from support.cli import run

from aotbuild.report.facts import read_facts
from aotbuild.runtime.locate import locate
from aotbuild.verify.cold_start import Package, choose, measure, unpacked

pytestmark = [pytest.mark.process, pytest.mark.any_jax]


@pytest.fixture(scope="module")
def built() -> list[Built]:
    with_x64 = {"x": np.zeros(3, np.int32)}
    return [*wheels.make_records(), packages.build("plus", lambda x: x + 1, with_x64)]


def folder(root: Path, built: list[Built]) -> Path:
    return wheels.write_folder(root / "demo" / "_aot", wheels.aot_files(built))


def package(place: Path) -> Package:
    return Package(str(place), tuple(read_facts(locate(place)).records))


def test_both_are_measured(built: list[Built], tmp_path: Path) -> None:
    old = package(folder(tmp_path, built))
    chosen = choose(old, old)
    assert chosen.skipped == {}
    # Not the portable form of `double`.
    assert chosen.pairs.keys() == {"double", "product", "plus"}
    measured = measure(chosen, 2)
    assert measured.skipped == {}
    for sides in measured.times.values():
        assert [len(side) for side in sides] == [2, 2]
        assert all(0 < time < 60_000 for side in sides for time in side)


def test_what_does_not_run_here_is_not_measured(built: list[Built], tmp_path: Path) -> None:
    double, product, *_ = built
    refused = product.replace(jaxlib="0.0.1")
    record = dataclasses.replace(
        double.record, blob=dataclasses.replace(double.record.blob, sha256="0" * 64)
    )
    lost = dataclasses.replace(double, record=record)
    old = package(folder(tmp_path / "old", [double, refused]))
    new = package(folder(tmp_path / "new", [lost, refused]))
    chosen = choose(old, new)
    assert chosen.pairs == {}
    assert chosen.skipped["product"].startswith("jaxlib: expected 0.0.1, found ")
    assert "blobs/0000" in chosen.skipped["double"]


def test_other_signatures_have_nothing_in_common(built: list[Built], tmp_path: Path) -> None:
    old = package(folder(tmp_path / "old", built[:1]))
    new = package(folder(tmp_path / "new", built[1:2]))
    chosen = choose(old, new)
    assert (chosen.pairs, chosen.skipped) == ({}, {})


def test_the_command_on_wheels(built: list[Built], tmp_path: Path) -> None:
    files = wheels.with_record(wheels.wheel_files(wheels.aot_files(built[:1])))
    wheel = wheels.write_wheel(tmp_path / wheels.NAME, files.items())
    result = run("diff", wheel, wheel, "--gate", "cold-start=+1000000%", "--json")
    (gate,) = json.loads(result.stdout)["gates"]
    assert gate["passed"]
    assert gate["old"] > 0
    assert [line.partition(":")[0] for line in gate["details"]] == ["double"]


def test_a_wheel_is_unpacked(built: list[Built], tmp_path: Path) -> None:
    aot = wheels.aot_files(built)
    wheel = wheels.write_wheel(tmp_path / wheels.NAME, wheels.wheel_files(aot).items())
    with unpacked(f"{wheel}/{wheels.AOT}") as place:
        found = {str(p.relative_to(place)): p.read_bytes() for p in Path(place).rglob("*.*")}
        assert found | {"index": aot["index"]} == aot
    assert not Path(place).exists()
    with unpacked(str(tmp_path)) as place:
        assert place == str(tmp_path)
