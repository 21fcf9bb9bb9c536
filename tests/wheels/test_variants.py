"""`aotbuild split --variants`: whole wheels, with the metadata of PEP 825 as it is drafted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attacks import wheels
from support.cli import run
from support.packages import Built, build
from support.schemas import validator
from support.wheel_files import contents, everywhere, for_target, put_wheel, text

import aotbuild
from aotbuild.verify.api import Options, verify

X = np.arange(3, dtype=np.float32)
NULL = "demo-1.0-py3-none-any-null.whl"
CUDA = "demo-1.0-py3-none-any-nvidia_90_real_12.8.whl"
TPU = "demo-1.0-py3-none-any-tpu_v5e.whl"
INDEX = "demo-1.0-variants.json"
URL = "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json"

# What the PEP's text says of a `variant.json`, format 0.1.1.
_NAME, _VALUE = "^[a-z0-9_]+$", "^[a-z0-9_.]+$"
_VALUES = {
    "type": "array",
    "items": {"type": "string", "pattern": _VALUE},
    "minItems": 1,
    "uniqueItems": True,
}


def _mapping(pattern: str, values: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "patternProperties": {pattern: values},
        "additionalProperties": False,
    }


SCHEMA = {
    "type": "object",
    "required": ["$schema", "default-priorities", "variants"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"const": URL},
        "default-priorities": {
            "type": "object",
            "required": ["namespace"],
            "additionalProperties": False,
            "properties": {"namespace": {**_VALUES, "items": {"type": "string", "pattern": _NAME}}},
        },
        "variants": _mapping(_VALUE, _mapping(_NAME, _mapping(_NAME, _VALUES))),
    },
}


@pytest.fixture(scope="module")
def native() -> Built:
    return build("double", lambda x: x * 2, {"x": X})


@pytest.fixture
def out(native: Built, tmp_path: Path) -> Path:
    more = for_target(native, "cuda:h200:1", capability="9.0a", cuda="12.9.1")
    wheel = put_wheel(tmp_path / wheels.NAME, [*everywhere([native]), more])
    run("split", wheel, "--variants", "--out", tmp_path / "out")
    return tmp_path / "out"


def test_the_wheels(out: Path) -> None:
    assert {path.name for path in out.iterdir()} == {NULL, CUDA, TPU, INDEX}
    for name in (NULL, CUDA, TPU):
        report = verify(str(out / name), Options(load=False))
        assert report.passed, report


def test_each_is_whole(out: Path) -> None:
    for name, count in ((NULL, 1), (CUDA, 3), (TPU, 2)):
        library = aotbuild.load(out / name)
        assert library.stats()["executables"] == count
        np.testing.assert_array_equal(library.double(X), X * 2)
        library.close()


def test_the_metadata_of_each(out: Path) -> None:
    expected = {
        NULL: {},
        CUDA: {"nvidia": {"sm_arch": ["90_real"], "cuda_version_lower_bound": ["12.8"]}},
        TPU: {"tpu": {"generation": ["v5e"]}},
    }
    for name, properties in expected.items():
        document = json.loads(text(out / name, ".dist-info/variant.json"))
        validator(SCHEMA).validate(document)
        label = name.removesuffix(".whl").rpartition("-")[2]
        assert re.fullmatch("[0-9a-z_.]+", label)
        assert document["variants"] == {label: properties}
        assert document["default-priorities"] == {"namespace": ["nvidia", "tpu"]}
        assert "demo-1.0.dist-info/variant.json,sha256=" in text(out / name, "RECORD")


def test_the_file_of_the_index_is_all_of_them(out: Path) -> None:
    document = json.loads((out / INDEX).read_text())
    validator(SCHEMA).validate(document)
    each = [json.loads(text(out / n, "/variant.json"))["variants"] for n in (NULL, CUDA, TPU)]
    assert document["variants"] == {**each[0], **each[1], **each[2]}


def test_no_companions(out: Path) -> None:
    assert "Provides-Extra" not in text(out / CUDA, "/METADATA")
    assert not any(name.endswith("entry_points.txt") for name in contents(out / CUDA))


def test_the_draft_is_named(native: Built, tmp_path: Path) -> None:
    wheel = put_wheel(tmp_path / wheels.NAME, everywhere([native]))
    shown = run("split", wheel, "--variants", "--out", tmp_path / "out").stdout
    assert "note: variant wheels follow the draft of PEP 825 of 10 August 2026" in shown


def test_no_property_says_what_a_cpu_level_is(native: Built, tmp_path: Path) -> None:
    wheel = put_wheel(tmp_path / wheels.NAME, everywhere([native]))
    options = ("--variants", "--keep", "portable", "--out", tmp_path / "out")
    result = run("split", wheel, *options, code=7)
    assert "no variant can be of cpu" in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_variant_is_not_split_again(out: Path, tmp_path: Path) -> None:
    result = run("split", out / CUDA, "--out", tmp_path / "again", code=7)
    assert "variants are not taken apart or joined" in result.stderr
