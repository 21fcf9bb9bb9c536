"""`aotbuild doctor` and `aotbuild verify` as commands: text, JSON, exit codes."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attacks import wheels
from attacks.wheels import Built
from support import packages
from support.cli import Result, invoke

from aotbuild import load
from aotbuild.errors import NoExecutable
from aotbuild.verify import diagnosis
from aotbuild.verify import diagnosis as facts


@pytest.fixture(scope="module")
def built() -> list[Built]:
    return wheels.make_records()


@pytest.fixture
def place(built: list[Built], tmp_path: Path) -> Path:
    return wheels.write_folder(tmp_path / "demo" / "_aot", wheels.aot_files(built))


@pytest.fixture
def foreign(built: list[Built], tmp_path: Path) -> Path:
    """A package for a jaxlib that is not here."""
    items = [item.replace(jaxlib="0.0.1") for item in built[:1]]
    return packages.write(tmp_path / "foreign", items)


def run(*args: object) -> Result:
    return invoke(*args)


def document(*args: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*args, "--json").stdout)
    return found


# --- doctor ---------------------------------------------------------------------------------------


def test_the_host_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_SOMETHING", "here")
    result = run("doctor")
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert {"python", "aotbuild", "jax", "jaxlib", "cpu", "isa", "devices"} <= set(rows)
    assert rows["JAX_SOMETHING"].split() == ["JAX_SOMETHING", "here"]


def test_what_decides_on_gpus_and_tpus(monkeypatch: pytest.MonkeyPatch) -> None:
    known = facts.gather()
    gpu = dataclasses.replace(
        known.host,
        platform="cuda",
        device_kinds=("NVIDIA H200",),
        devices_everywhere=1,
        plugins=(("jax-cuda13-pjrt", "1.2.3"),),
        facts=(("capability", "9.0a"), ("cuda", "13.1"), ("driver", "13.2"), ("cudnn", None)),
    )
    tpu = dataclasses.replace(
        known.host,
        platform="tpu",
        device_count=4,
        device_kinds=("TPU v5 lite",),
        devices_everywhere=8,
        facts=(("topology", "2x4x1"),),
        plugins=(("libtpu", "0.0.42"),),
    )
    monkeypatch.setattr(facts, "gather", lambda: dataclasses.replace(known, hosts=(gpu, tpu)))
    text = run("doctor").stdout.splitlines()
    lines = [line for line in text if line.startswith(("devices", "also"))]
    assert [line.split(maxsplit=1)[1] for line in lines] == [
        "1 cuda (NVIDIA H200), capability 9.0a, cuda 13.1, driver 13.2, jax-cuda13-pjrt 1.2.3",
        "4 tpu (TPU v5 lite), 8 in all processes, topology 2x4x1, libtpu 0.0.42",
    ]
    first, second = document("doctor")["host"]["platforms"]
    assert (first["capability"], first["plugins"]) == ("9.0a", {"jax-cuda13-pjrt": "1.2.3"})
    assert (second["topology"], second["kinds"]) == ("2x4x1", ["TPU v5 lite"])


def test_a_usable_package(place: Path) -> None:
    result = run("doctor", place)
    assert result.exit_code == 0, result.output
    assert "2 of 2 signatures have an executable that runs here" in result.stdout
    found = document("doctor", place)
    assert (found["package"], found["usable"]) == ("demo", True)
    grades = [r["verdict"] for s in found["signatures"] for r in s["records"]]
    assert grades == ["OPTIMAL", "REFUSED", "OPTIMAL"]


def test_custom_calls_that_the_program_registers(built: list[Built], tmp_path: Path) -> None:
    item = built[0].replace(custom_calls=(packages.CustomCall("my_op", "user"),))
    result = run("doctor", packages.write(tmp_path, [item]))
    assert result.exit_code == 0, result.output
    assert "not judged: my_op; import the package that registers them first" in result.stdout


def test_an_editable_install(tmp_path: Path) -> None:
    result = run("doctor", packages.write(tmp_path, [], editable={"f": {}}))
    assert "demo is an editable install without executables: calls go to the sou" in result.stdout
    assert "0 of 0" not in result.stdout


def test_an_unusable_package_says_what_the_call_says(foreign: Path) -> None:
    import numpy as np

    result = run("doctor", foreign)
    assert result.exit_code == 5
    with pytest.raises(NoExecutable) as raised:
        load(foreign).double(np.zeros(3, np.float32))
    summary, *trace, remedy = str(raised.value).splitlines()
    for line in (summary.partition(": ")[2], *trace, remedy):
        assert result.stdout.count(line) == 1
    assert raised.value.summary == diagnosis.SUMMARY
    with pytest.raises(NoExecutable) as raised:
        load(foreign, arrays="numpy").double(np.zeros(3, np.float32))
    assert raised.value.remedy == remedy.partition(" AOTBUILD_FALLBACK")[0]
    found = document("doctor", foreign)
    assert (found["usable"], found["error"]) == (False, None)
    assert run("doctor", foreign, "--json").exit_code == 5


def test_places_that_hold_nothing(tmp_path: Path) -> None:
    for command in ("doctor", "verify"):
        result = run(command, tmp_path)
        assert result.exit_code == 6
        assert "holds no precompiled executables" in result.stderr
        assert run(command, tmp_path / "gone.whl").exit_code == 6
        assert document(command, tmp_path)["error"]["type"] == "NoArtifacts"


def fresh(blocked: str, *args: object, **env: str) -> subprocess.CompletedProcess[str]:
    code = f"import sys; sys.modules[{blocked!r}] = None; sys.argv[1:] = {list(map(str, args))!r}; "
    code += "from aotbuild.cli.__main__ import main; main()"
    command = [sys.executable, "-c", code]
    variables = {**os.environ, **env}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables)


@pytest.mark.process
def test_without_jax(place: Path) -> None:
    done = fresh("jax", "doctor", place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'numpy alone, as jax is not installed: load(…, arrays="numpy")' in done.stdout
    assert "cpu:" in done.stdout
    assert fresh("jax", "doctor").returncode == 0


@pytest.mark.process
def test_without_jaxlib(place: Path) -> None:
    done = fresh("jaxlib", "doctor", place)
    assert done.returncode == 5, done.stderr
    assert "nothing can be called: jaxlib is not installed" in done.stdout
    assert fresh("jaxlib", "doctor").returncode == 0


# --- verify ---------------------------------------------------------------------------------------


def test_the_document_of_verify(place: Path) -> None:
    found = document("verify", place, "--no-run")
    assert (found["passed"], found["package"], found["kind"]) == (True, "demo", "folder")
    assert found["counts"]["NOT CHECKED"] == 6
    assert {c["check"] for c in found["checks"]} == {*("index", "blobs", "files", "load", "golden")}


def test_failures_have_their_own_code(place: Path) -> None:
    (place / "blobs" / "stray\x1b[2J").touch()
    result = run("verify", place)
    assert result.exit_code == 5
    assert "\x1b" not in result.stdout
    assert "FAIL: files of" in result.stdout
    assert document("verify", place)["passed"] is False
