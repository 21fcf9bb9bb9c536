"""Builds share what was compiled, by the inputs; a damaged entry is compiled again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import MANIFEST, build, write_project

from aotbuild.build.pack import Package
from aotbuild.spec.canonical import canonical_json, sha256_hex

SOURCE = "def f(x):\n    return x * 2 + 1\n"
MANIFEST_TEXT = """
version: 1
package: proj
functions:
  f: {call: "proj.m:f", args: [x: "f32[4]"]}
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", MANIFEST_TEXT, m=SOURCE)


def entries(store: Path) -> list[Path]:
    return sorted(path for path in store.rglob("*") if path.is_file())


def mark(entry: Path) -> None:
    """Change a fact in an entry, under a digest that fits."""
    _, facts, data = entry.read_bytes().split(b"\n", 2)
    changed = json.loads(facts)
    changed["analysis"]["flops"] = 12345.0
    rest = canonical_json(changed) + b"\n" + data
    entry.write_bytes(sha256_hex(rest).encode() + b"\n" + rest)


def flops(package: Package) -> float:
    return float(package.records[0].analysis["flops"])


def test_the_second_build_takes_what_the_first_compiled(store: Path, project: Path) -> None:
    first = build(project)
    (entry,) = entries(store)
    mark(entry)
    second = build(project)
    assert flops(second) == 12345.0
    assert second.records[0].blob == first.records[0].blob


def test_a_damaged_entry_is_compiled_again(store: Path, project: Path) -> None:
    first = build(project)
    (entry,) = entries(store)
    entry.write_bytes(entry.read_bytes()[:-1] + b"\0")
    assert flops(build(project)) == flops(first)
    assert entry.exists()
    assert entry.with_suffix(".damaged").exists()


def test_other_sources_and_options_are_other_entries(store: Path, project: Path) -> None:
    build(project)
    (project / "proj" / "m.py").write_text(SOURCE.replace("2", "3"))
    build(project)
    options = "{xla_cpu_enable_fast_math: true}"
    text = MANIFEST_TEXT.replace(
        'args: [x: "f32[4]"]', f'args: [x: "f32[4]"], compiler_options: {options}'
    )
    (project / MANIFEST).write_text(text)
    build(project)
    assert len(entries(store)) == 3


def test_off_keeps_nothing(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_STORE", "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    build(project)
    assert not (tmp_path / "cache").exists()
