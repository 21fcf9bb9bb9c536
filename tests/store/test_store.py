"""The store keeps what was compiled, whole or not at all; builds take it from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.projects import MANIFEST, build, write_project

from aotbuild.build.pack import Package
from aotbuild.store.entry import Entry, read_entry, write_entry
from aotbuild.store.folder import Store
from aotbuild.store.keys import executable_key, golden_key, key_of, padding_key
from aotbuild.store.prune import survey

KEY = key_of({"module": "m", "target": "cpu"})
ENTRY = Entry({"flops": 2.0}, b"\x00code\n\xff")
SOURCE = "def f(x):\n    return x * 2 + 1\n"
MANIFEST_TEXT = """
version: 1
package: proj
functions:
  f: {call: "proj.m:f", args: [x: "f32[4]"], verify: {golden: never}}
"""


PROVENANCE = {
    "aotbuild": "0.1.0",
    "compiler_options": {"o": 1},
    "config": {"c": True},
    "jax": "0.10.2",
    "jaxlib": "0.10.2",
    "label": "f()",
    "stablehlo": "ab",
    "xla_flags": "--x",
}


def test_keys_stay_as_they_are() -> None:
    """Another key for equal inputs would make every user compile everything again."""
    executable = executable_key(
        target="cpu:x86-64-v3:1",
        hardware={"kind": ""},
        machine=["x86_64"],
        thunk_rewrite=4,
        provenance=PROVENANCE,
    )
    given: Any = {
        "leaves": ["f32[2]"],
        "given": [(0, "cd")],
        "machine": ["x86_64", []],
        "provenance": PROVENANCE,
    }
    golden = golden_key(module="ab", **given)
    padding = padding_key(
        modules=["ab", "cd"], padding={"buckets": [[1]]}, tolerances=[None, 0.5], **given
    )
    keys = (executable, golden, padding)
    assert [key[:16] for key in keys] == [
        "c9de5f19c50a0931",
        "a7c2fa57e3197aae",
        "8a870d4f7315df32",
    ]


@pytest.mark.parametrize("damage", [b"", b"x", b"\n\n", None])
def test_a_damaged_entry_is_removed(tmp_path: Path, damage: bytes | None) -> None:
    store = Store(tmp_path)
    store.put(KEY, ENTRY)
    (path,) = (p for p in tmp_path.rglob("*") if p.is_file())
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + b"\xfe" if damage is None else damage)
    assert store.get(KEY) is None
    assert not path.exists()
    store.put(KEY, ENTRY)
    assert store.get(KEY) == ENTRY


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", MANIFEST_TEXT, m=SOURCE)


def entries(store: Path) -> list[Path]:
    """Return the files of executables; what was kept of whole builds goes."""
    found = []
    for item in survey(store):
        if "requires" in read_entry(item.path.read_bytes(), item.key).facts:
            found.append(item.path)
        else:
            item.path.unlink()
    return found


def mark(path: Path) -> None:
    """Change a fact in an entry, under a digest that fits."""
    entry = read_entry(path.read_bytes(), path.name)
    analysis = {**entry.facts["analysis"], "flops": 12345.0}
    path.write_bytes(
        write_entry(path.name, Entry({**entry.facts, "analysis": analysis}, entry.data))
    )


def flops(package: Package) -> float:
    return float(package.records[0].analysis["flops"])


@pytest.mark.process
def test_the_second_build_takes_what_the_first_compiled(store: Path, project: Path) -> None:
    first = build(project)
    (entry,) = entries(store)
    mark(entry)
    second = build(project)
    assert flops(second) == 12345.0
    assert second.records[0].blob == first.records[0].blob


@pytest.mark.process
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
    # It is not in the module: jax tells XLA of it beside.
    config = text.replace(
        "compiler_options:", "config: {jax_optimization_level: O1}, compiler_options:"
    )
    (project / MANIFEST).write_text(config)
    build(project)
    assert len(entries(store)) == 4
