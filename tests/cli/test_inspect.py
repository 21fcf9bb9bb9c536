"""`aotbuild inspect` and `aotbuild diff`: places, documents, damage, and what is never imported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import Result, invoke
from support.reports import WEIGHTS, make_function, make_record, write_package

from aotbuild.format.aval import Aval
from aotbuild.format.padding import PaddedDim, Padding

DATA = b"executable"
TARGETS = ("cpu:x86-64-v3:1", "portable:cpu:1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    records = [make_record(data=DATA, target=name, constants=True) for name in TARGETS]
    folder = write_package(tmp_path / "pack", [make_function(), make_function("g")], records)
    (folder / "blobs").mkdir(exist_ok=True)
    for record in records:
        for blob in record.blobs():
            data = WEIGHTS if blob.kind == "safetensors" else DATA
            (folder / blob.path).write_bytes(data)
    return folder


def run(*args: object) -> Result:
    return invoke(*args)


def test_the_summary(tmp_path: Path) -> None:
    """A row for each function, whatever it has: 4 signatures for 2 targets each."""
    records = [
        make_record(batch=size, target=target, label=f"f(batch={size})")
        for size in range(1, 5)
        for target in TARGETS
    ]
    folder = write_package(tmp_path / "pack", [make_function(), make_function("g")], records)
    lines = run("inspect", folder).stdout.splitlines()
    table = [re.split("  +", line)[2:4] for line in lines[lines.index("") + 2 :][:2]]
    named = "4: batch=1, batch=2, batch=3, …"
    assert table == [[named, f"2: {', '.join(TARGETS)}"], ["none", "none"]]
    assert len(lines) < 15


def test_text(folder: Path) -> None:
    result = run("inspect", folder, "--all")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("pack: 2 executables, 1 signature, 2 functions, ")
    for line in (
        f"  place     {folder}",
        "  built by  aotbuild 0.1.0, jax 0.10.2, jaxlib 0.10.2",
        "f = pack.m:f(x, k=, *, scale, causal=)  donates x",
        "  batch=1: x f32[1,2] -> f32[1,2]",
        "u8[10,7]  70 B  2 executables",
        "config.jax_enable_x64  false",
    ):
        assert line in result.stdout, line
    row = next(line for line in result.stdout.splitlines() if TARGETS[0] in line)
    assert re.split("  +", row) == [
        "batch=1", "cpu:x86-64-v3:1", "pjrt", "10 B", "1 M", "4.1 kB", "1.13 kB",
        "isa x86-64-v3, jaxlib 0.10.2",
    ]  # fmt: skip


def test_leaves_are_named(tmp_path: Path) -> None:
    avals = tuple(Aval((2, size), "float32") for size in range(1, 8))
    layer = ["node", "m:Layer", None, "*", "*"]
    inputs = ["tuple", layer, ["list", layer], ["dict", ["a\nb"], "*"]]
    tree = ["tuple", ["tuple", inputs], ["dict", ["scale"], "*"]]
    record = make_record()
    record = replace(
        record,
        signature=replace(record.signature, tree=tree, leaves=avals[:6]),
        calling=replace(
            record.calling,
            kept=tuple(range(6)),
            donated=(0, 5),
            in_specs=(),
            outputs=avals[:2],
            out_tree=["input", [0, 0, 0]],
        ),
    )
    folder = write_package(tmp_path / "pack", [make_function()], [record])
    lines = run("inspect", folder, "--function", "f").stdout.splitlines()
    at = lines.index("  batch=1:")
    assert lines[at + 1 : at + 9] == [
        "    x[0][0] f32[2,1] donated",
        "    x[0][1] f32[2,2]",
        "    x[1][0][0] f32[2,3]",
        "    x[1][0][1] f32[2,4]",
        "    x[2]['a\\nb'] f32[2,5]",
        "    scale f32[2,6] donated",
        "    -> f32[2,1]",
        "    -> f32[2,2]",
    ]
    (function_,) = json.loads(run("inspect", folder, "--json").stdout)["functions"]
    (signature,) = function_["signatures"]
    assert signature["arguments"][0] == {"name": "x[0][0]", "aval": "f32[2,1]", "donated": True}
    assert run("inspect", folder, "--html", tmp_path / "page.html").exit_code == 0
    assert "x[0][0] f32[2,1], " in (tmp_path / "page.html").read_text()


def test_padding_is_told(tmp_path: Path) -> None:
    pad = Padding((PaddedDim("n", 0.0),), ((1,), (8,)), (((0, 0),),), (((0, 0),),))
    folder = write_package(tmp_path / "pack", [make_function(pad=pad)], [make_record()])
    assert "  donates x  pads n with 0.0 to 1, 8\n" in run("inspect", folder, "--all").stdout
    document = json.loads(run("inspect", folder, "--json").stdout)
    assert document["functions"][0]["pad"] == {
        "dims": [{"name": "n", "value": 0.0}],
        "buckets": [[1], [8]],
    }
    plain = write_package(tmp_path / "plain", [make_function()], [make_record()])
    changed = "~ function f: pad (empty) → n with 0.0 to 1, 8\n"
    assert changed in run("diff", plain, folder).stdout


def test_the_document(folder: Path) -> None:
    result = run("inspect", folder, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert list(document) == [
        "version", "error", "place", "package", "aotbuild", "jax", "jaxlib", "fallback", "format",
        "distribution", "digest", "totals",
        "functions", "constants",
    ]  # fmt: skip
    assert (document["version"], document["error"]) == (1, None)
    assert document["totals"]["blob_size"] == 2 * len(DATA) + len(WEIGHTS)
    function = document["functions"][0]
    assert function["parameters"][1] == {
        "name": "k", "kind": "positional", "static": True, "donated": False, "default": 3,
    }  # fmt: skip
    signature = function["signatures"][0]
    assert (signature["label"], signature["inputs"]) == ("f(batch=1)", ["f32[1,2]"])
    executable = signature["executables"][0]
    assert list(executable) == [
        "target", "kind", "sha256", "size", "flops", "bytes_accessed", "peak_memory",
        "device_memory", "analysis", "requires", "mesh", "constants",
        "golden", "provenance",
    ]  # fmt: skip
    assert executable["peak_memory"] == 1130
    assert executable["requires"]["isa"] == "x86-64-v3"
    assert document["constants"][0]["executables"] == 2


def test_a_wheel_and_a_folder_say_the_same(folder: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "pack-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, f"pack/_aot/{path.relative_to(folder)}")
    documents = [json.loads(run("inspect", p, "--json").stdout) for p in (folder, wheel)]
    assert documents[1].pop("place") == f"{wheel}/pack/_aot"
    assert documents[1].pop("distribution") == {"name": "pack", "version": "1"}
    assert documents[0].pop("distribution") is None
    documents[0].pop("place")
    assert documents[0] == documents[1]
    assert run("diff", folder, wheel, "--exit-code").stdout.endswith("\n\nno difference\n")


def test_a_damaged_index(folder: Path) -> None:
    index = folder / "index"
    index.write_bytes(index.read_bytes().replace(b'"fallback":"none"', b'"fallback":"jit!"'))
    for args in (["inspect", folder], ["diff", folder, folder]):
        result = run(*args, "--json")
        assert result.exit_code == 6
        assert json.loads(result.stdout)["error"]["type"] == "InvalidIndex"


def test_hostile_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    evil = "f\x1b[31m\u202e"
    records = [make_record(evil, label=evil, provenance={evil: evil}, jaxlib=evil)]
    folder = write_package(tmp_path, [make_function(evil, call=evil)], records)
    other = write_package(tmp_path / "other", [], [])
    for args in (
        ["inspect", folder],
        ["inspect", folder, "--all"],
        ["diff", folder, other],
        ["diff", other, folder],
    ):
        result = run(*args)
        assert result.exit_code == 0, result.output
        assert "\\x1b[31m" in result.stdout
        assert not {"\x1b", "\u202e"} & set(result.stdout)


@pytest.mark.process
def test_neither_jax_nor_the_package_is_imported(folder: Path) -> None:
    package = folder.parent
    (package / "__init__.py").write_text("raise SystemExit('imported')\n")
    code = (
        "import atexit, sys; sys.path.insert(0, sys.argv.pop(1))\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "from aotbuild.cli.__main__ import main; main()"
    )
    for args in (["inspect", "pack", "--html", str(package / "p.html")], ["diff", "pack", "pack"]):
        done = subprocess.run(
            [sys.executable, "-c", code, str(package.parent), *args],
            capture_output=True, text=True, check=False, cwd="/",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        loaded = {name.partition(".")[0] for name in done.stderr.split()}
        assert "aotbuild" in loaded
        assert not loaded & {"jax", "jaxlib", "numpy", "yaml", "pydantic", "pack"}
