"""`aotbuild build --check-reproducible`: two builds without the store, compared."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from support.cli import invoke, run
from support.projects import build, write_project

from aotbuild.build.differences import Difference, differences
from aotbuild.build.pack import Package
from aotbuild.format.protobuf import bytes_of, fields, replaced, varint

pytestmark = pytest.mark.any_jax

MANIFEST = """\
version: 1
package: proj
targets: [cpu, {portable: {platforms: [cpu]}}]
defaults: {purity: skip}
functions:
  scale: {call: "proj.code:scale", args: [{x: "f32[5]"}]}
  clock: {call: "proj.code:clock", args: [{x: "f32[5]"}]}
"""
CODE = """\
import jax
import jax.numpy as jnp

def scale(x):
    return jnp.sort(x) @ jnp.sin(x), jax.lax.scan(lambda c, y: (c + y, c), x[0], x)[1]

def clock(x):
    return scale(x)
"""
# A worker imports it anew in each build, and nothing says that it does.
READS_A_CLOCK = CODE.replace("return scale(x)", "return x * IMPORTED").replace(
    "import jax\n", "import jax\nimport time\nIMPORTED = float(time.monotonic_ns() % 10**6)\n", 1
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = write_project(tmp_path / "here", MANIFEST, code=CODE)
    monkeypatch.chdir(root)
    return root


@pytest.mark.process
class TestCommand:
    def test_equal_builds(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = project.parent / "store"
        monkeypatch.setenv("AOTBUILD_STORE", str(store))
        before = dict(os.environ)
        result = run("build", "--check-reproducible", "--json", "--jobs", "2")
        document = json.loads(result.stdout)
        assert document["reproducible"] is True
        assert document["differences"] == document["failures"] == []
        one, other = document["builds"]
        assert (one["jobs"], other["jobs"]) == (2, 1)
        assert one["digest"] == other["digest"]
        assert os.environ == before
        assert not store.exists(), "the store was used"
        assert sorted(path.name for path in project.iterdir()) == ["aot.yaml", "proj"]

    def test_what_differs_is_named(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        (project / "proj" / "code.py").write_text(READS_A_CLOCK)
        result = run("build", "--check-reproducible", code=12)
        lines = result.stdout.splitlines()
        # The source comes first, and once for all of its units.
        source, native, portable, last = (line for line in lines if not line.startswith("  "))
        assert source == lines[0]
        assert source.startswith("clock: proj.code:clock traces to another program in each build:")
        assert native.startswith("clock() for cpu:")
        assert portable == "clock() for portable:cpu:1"
        assert last == "not reproducible: 2 of 4 units differ"
        assert any(line.startswith("  executable, object file") for line in lines)
        assert any(line.startswith("  golden.outputs, byte ") for line in lines)
        assert not any("provenance.stablehlo" in line for line in lines)
        (annotation,) = (each for each in result.stderr.splitlines() if each.startswith("::"))
        where = "::error title=aotbuild build,file=aot.yaml,line=7,col=3::clock() for cpu:"
        assert annotation.startswith(where)

    def test_a_unit_that_fails(self, project: Path) -> None:
        (project / "proj" / "code.py").write_text(CODE.replace("return scale(x)", "return x @ 1"))
        result = run("build", "--check-reproducible", "--json", code=5)
        document = json.loads(result.stdout)
        assert document["reproducible"] is None
        assert {failure["unit"].partition("(")[0] for failure in document["failures"]} == {"clock"}


@pytest.mark.parametrize("options", [["--check"], ["--in-place"], ["--out", "x"], ["--keep-going"]])
def test_options_that_write_or_build_less(project: Path, options: list[str]) -> None:
    result = invoke("build", "--check-reproducible", *options)
    assert result.exit_code == 2
    assert "--check-reproducible" in result.stderr
    assert options[0] in result.stderr
    assert "exclude each other" in result.stderr


# --- two packages ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    root = tmp_path_factory.mktemp("package")
    text = MANIFEST.replace(", {portable: {platforms: [cpu]}}", "")
    return build(write_project(root, text, code=CODE))


def executable(package: Package) -> bytes:
    return (package.folder / package.records[0].blob.path).read_bytes()


def with_executable(package: Package, data: bytes) -> Package:
    """Return a package whose first unit has other bytes."""
    record = package.records[0]
    blob = replace(record.blob, sha256=sha256(data).hexdigest(), size=len(data))
    (package.folder / blob.path).write_bytes(data)
    return replace(package, records=(replace(record, blob=blob), *package.records[1:]))


def with_result(data: bytes, result: bytes) -> bytes:
    size, at = varint(data, 0)
    return data[: at + size] + replaced(data[at + size :], [1], result)


def result_of(data: bytes) -> bytes:
    size, at = varint(data, 0)
    return bytes_of(data[at + size :], 1)


@pytest.mark.process
class TestExecutables:
    def test_none(self, package: Package) -> None:
        assert differences(package, package) == []

    def test_the_order_of_object_files(self, package: Package) -> None:
        data = executable(package)
        parts = [*fields(result_of(data))]
        files = [part for part in parts if part.number == 8]
        assert len(files) > 1
        others = [part for part in parts if part.number != 8]
        turned = with_result(data, b"".join(p.whole for p in [*others, *files[::-1]]))
        (found,) = differences(package, with_executable(package, turned))
        assert found.part == "executable"
        assert str(found) == (
            "executable, object files: one order in one build, another order in the other"
        )

    def test_a_byte(self, package: Package) -> None:
        data = executable(package)
        name = b"jit_scale"
        other = data.replace(name, b"jit_scalp")
        (found,) = differences(package, with_executable(package, other))
        assert found.where.startswith("HLO module, byte ")
        assert (found.first[:2], found.second[:2]) == ("65", "70")

    def test_what_is_no_executable(self, package: Package) -> None:
        data = executable(package)
        (found,) = differences(package, with_executable(package, data[:-1]))
        unit = str(package.plan.units[0])
        sizes = f"{len(data):,} B", f"{len(data) - 1:,} B"
        assert found == Difference(unit, "executable", "size", *sizes)
