"""Records whose parts contradict each other are refused when they are read."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.records import make_record

from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.format.record import Blob, Golden
from aotbuild.format.record_json import record_digest, record_from_json, record_to_json

Edit = Callable[[dict[str, Any]], None]


def calling(**changes: Any) -> Edit:
    return lambda data: data["calling"].update(changes)


def tree(value: Any) -> Edit:
    return lambda data: data["signature"].update(tree=value)


TEMPLATE = {"like": "pack.m:init", "values": [["n", 3]], "root": [0]}


def compared(*templates: dict[str, Any], like: str = "pack.m:init") -> Edit:
    def edit(data: dict[str, Any]) -> None:
        node = ["node", "pack.m:State", {"tuple": [1, {"reference": like}]}, "*"]
        tree(["tuple", ["tuple", node], ["dict", ["scale"], "*"]])(data)
        data["calling"]["templates"] = list(templates)

    return edit


@pytest.mark.parametrize("data", [{"ordered": []}, {"ordered": 3}, {"tuple": 3}, {}, [], 3])
def test_static_data_of_any_form_has_no_reference(data: Any) -> None:
    record = record_to_json(make_record())
    tree(["tuple", ["tuple", ["node", "pack.m:State", data, "*"]], ["dict", ["scale"], "*"]])(
        record
    )
    assert record_to_json(record_from_json(record)) == record


def test_a_template_is_read_back() -> None:
    data = record_to_json(make_record())
    compared(TEMPLATE)(data)
    assert record_to_json(record_from_json(data)) == data


def test_a_call_reads_its_executable_and_constants_alone() -> None:
    record = make_record()
    given, outputs = Blob("safetensors", "1" * 64, 1), Blob("safetensors", "2" * 64, 2)
    checked = replace(record, golden=Golden(((0, given),), outputs))
    constants = tuple(constant.blob for constant in record.calling.constants)
    assert checked.needed_blobs() == (record.blob, *constants)
    assert checked.blobs() == (record.blob, *constants, given, outputs)


def test_the_identity_of_a_record_is_that_of_its_object() -> None:
    record = make_record()
    assert record_digest(record) == sha256_hex(canonical_json(record_to_json(record)))
    assert record_digest(replace(record, function="other")) != record_digest(record)


@pytest.mark.parametrize("found", [None, 1, [], {}])
def test_a_field_of_another_kind_is_named(found: Any) -> None:
    data = record_to_json(make_record())
    with pytest.raises(ValueError, match=re.escape(f"expected text, found {found!r}")):
        record_from_json({**data, "function": found})


@pytest.mark.parametrize(
    "edit",
    [
        lambda data: data.pop("requires"),
        lambda data: data.update(signature=[]),
        lambda data: data["signature"].update(leaves=["f99[2]"]),
        lambda data: data["calling"].update(donated=["0"]),
        lambda data: data["calling"].update(outputs=3),
        lambda data: data["requires"].update(devices=True),
    ],
)
def test_other_types_are_refused(edit: Any) -> None:
    data = copy.deepcopy(record_to_json(make_record()))
    edit(data)
    with pytest.raises(ValueError, match=r"not a record|expected|unknown dtype"):
        record_from_json(data)
