"""Until when portable forms are read: what `inspect`, `doctor` and `verify` say of it."""

from __future__ import annotations

import dataclasses
import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import invoke
from support.packages import Built, build, portable, write

import aotbuild
from aotbuild.errors import AotbuildError
from aotbuild.format import portable as windows
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.record import Blob
from aotbuild.verify.api import Options, verify

X = np.ones(4, "float32")
JAX = "0.10.2"


@pytest.fixture(scope="module")
def built() -> list[Built]:
    native = build("double", lambda x: x * 2, {"x": X})
    exported = portable(native, lambda x: x * 2)
    record = dataclasses.replace(exported.record, provenance={"jax": JAX})
    return [native, dataclasses.replace(exported, record=record)]


@pytest.fixture
def folder(built: list[Built], tmp_path: Path) -> Path:
    return write(tmp_path / "demo", built)


def released(monkeypatch: pytest.MonkeyPatch, ago: int, newest: int | None = None) -> date:
    """Let the jax that exported be released so many days ago; return the end of its window."""
    today = date.today()
    table = [(JAX, today - timedelta(ago))]
    if newest is not None:
        table.append(("0.10.2.1", today - timedelta(newest)))
    monkeypatch.setattr(windows, "_RELEASED", tuple(table))
    return today - timedelta(ago) + timedelta(180)


def checked(folder: Path) -> Any:
    outcomes = verify(str(folder), Options(load=False)).outcomes
    return next((o for o in outcomes if o.check == "portable"), None)


def lines(*arguments: object) -> str:
    return invoke(*arguments).stdout


def test_early(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    until = released(monkeypatch, ago=10)
    words = f"exported by jax {JAX}, read by each jax released until {until}"
    assert f"\n  portable  {words}\n" in lines("inspect", folder)
    assert "build again" not in lines("inspect", folder)
    document = json.loads(lines("inspect", folder, "--json"))
    assert document["portable"] == {"jax": JAX, "until": until.isoformat()}
    executables = document["functions"][0]["signatures"][0]["executables"]
    found = {each["target"].partition(":")[0]: each["portable"] for each in executables}
    assert found == {"cpu": None, "portable": document["portable"]}
    outcome = checked(folder)
    assert (outcome.status.value, outcome.reasons) == ("PASS", (words,))
    document = json.loads(lines("doctor", folder, "--json"))
    assert document["portable"] == {"jax": JAX, "until": until.isoformat()}
    assert document["notes"] == []


def test_near_the_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    until = released(monkeypatch, ago=170)
    warning = "that is 10 days from now: build again before you move to a newer jax"
    assert f"until {until}\n            {warning}\n" in lines("inspect", folder)
    outcome = checked(folder)
    assert (outcome.status.value, outcome.reasons[1]) == ("NOT CHECKED", warning)
    assert invoke("verify", folder, "--no-run").exit_code == 0
    (note,) = json.loads(lines("doctor", folder, "--json"))["notes"]
    assert note.startswith("portable forms: exported by jax ")
    assert note.endswith(warning)
    assert f"note: {note}" in lines("doctor", folder)


def test_after_the_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released(monkeypatch, ago=200)
    warning = "that has passed: a jax released since then may refuse it. Build again"
    assert warning in lines("inspect", folder)
    assert checked(folder).reasons[1] == warning
    (note,) = json.loads(lines("doctor", folder, "--json"))["notes"]
    assert note.endswith(warning)


def test_a_jax_here_that_is_too_new(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its release is known to be after the end; what jax does with the form is seen by a load."""
    released(monkeypatch, ago=300, newest=5)
    monkeypatch.setattr("aotbuild.verify.diagnosis.installed_version", lambda name: "99.0")
    (note,) = json.loads(lines("doctor", folder, "--json"))["notes"]
    assert note.endswith("; jax 99.0 here may refuse them. Build again")


def test_nothing_is_said_without_portable_forms(built: list[Built], tmp_path: Path) -> None:
    folder = write(tmp_path / "native", built[:1])
    assert checked(folder) is None
    assert "portable" not in lines("inspect", folder).splitlines()[:8]
    assert json.loads(lines("inspect", folder, "--json"))["portable"] is None
    assert json.loads(lines("doctor", folder, "--json"))["portable"] is None


def test_a_form_that_jax_refuses(built: list[Built], tmp_path: Path) -> None:
    data = b"not what jax.export wrote"
    blob = Blob("stablehlo", sha256_hex(data), len(data))
    record = dataclasses.replace(built[1].record, blob=blob)
    broken = Built(built[1].function, record, {blob.path: data})
    library = aotbuild.load(write(tmp_path / "broken", [broken], fallback="portable"))
    with pytest.raises(AotbuildError, match="exported by jax") as caught:
        library.double(X)
    assert "jax.export cannot read it" in str(caught.value)
