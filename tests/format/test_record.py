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


TWICE = ["tuple", ["tuple", "*"], ["dict", ["a", "a"], "*", "*"]]
EQUAL = ["tuple", ["tuple"], ["dict", [1, True], "*", "*"]]
UNSORTED = ["tuple", ["tuple"], ["dict", ["b", "a"], "*", "*"]]
UNHASHABLE = ["tuple", ["tuple"], ["dict", [["a"], ["b"]], "*", "*"]]
NO_TYPE = ["node", {"fingerprint": "a"}, None, "*", "*"]
DEEP: Any = "*"
for _ in range(300):
    DEEP = ["list", DEEP]

EDITS: dict[str, tuple[Edit, str]] = {
    "tree kind": (tree(["tuple", ["zork"], ["dict", []]]), "'zork' is no kind of node"),
    "tree shape": (tree(["list", "*", "*"]), r"not \(args, kwargs\)"),
    "tree json": (tree(["tuple", 3, "*"]), "3 is no tree"),
    "tree leaves": (tree(["tuple", ["tuple", "*"], ["dict", []]]), "1 leaves has 2 avals"),
    "dict keys twice": (tree(TWICE), "a dict of 2 children"),
    "dict keys equal": (tree(EQUAL), "equal keys"),
    "dict keys unsorted": (tree(UNSORTED), "keys that jax did not sort"),
    "dict keys unhashable": (tree(UNHASHABLE), "keys that jax did not sort"),
    "no jaxlib": (lambda data: data["requires"].update(jaxlib=None), "that of one jaxlib"),
    "result container": (calling(out_tree=["node", "builtins:list", None, "*"]), "a container"),
    "result input": (calling(out_tree=["input", [0, 7]]), "an input that is not there"),
    "result like": (calling(out_tree=["like_input", [0, 0], "*"]), "an input that is not there"),
    "result named": (calling(out_tree=["returns", [0], "*"]), "that the record does not name"),
    "result tail": (calling(out_tree=["input", [0, 0], "*"]), "has children of its own"),
    "signature kind": (tree(["input", [0]]), "which only results have"),
    "result path": (calling(out_tree=["input", [-1]]), "does not lead to a node"),
    "result leaves": (calling(out_tree=["list", "*", "*"]), "2 leaves has 1 avals"),
    "result deep": (calling(out_tree=DEEP), "deeper than"),
    "result type without a name": (
        calling(out_tree=["namedtuple", {"fingerprint": ["a", "0" * 32]}, "*"]),
        "no name of a type",
    ),
    "argument type": (tree(["tuple", ["tuple", NO_TYPE], ["dict", []]]), "no name of a type"),
    "result type": (calling(out_tree=["namedtuple", 3, "*"]), "no name of a type"),
    "kept range": (calling(kept=[0, 3]), "not indices of 3 inputs"),
    "kept twice": (calling(kept=[0, 0]), "not indices"),
    "donated": (calling(donated=[2]), "donated"),
    "mesh size": (calling(mesh=[["d", -2], ["a", -1], ["b", 1]]), "is none"),
    "mesh devices": (calling(mesh=[["d", 4], ["a", 1], ["b", 1]]), "does not have 2 devices"),
    "mesh axes": (calling(mesh=[["d", 2], ["d", 1]]), "is none"),
    "specs count": (calling(in_specs=[[]]), "1 PartitionSpecs for 2 arrays"),
    "specs rank": (calling(out_specs=[["d", None, None]]), "is no PartitionSpec"),
    "specs axis": (calling(out_specs=[["z"]]), "is no PartitionSpec"),
    "specs twice": (calling(out_specs=[["d", "d"]]), "is no PartitionSpec"),
}


CALLBACK = {
    "kind": "debug",
    "call": "pack.host:log",
    "tree": ["tuple", ["tuple", "*", "*"], ["dict", []]],
    "statics": [[1, "name"]],
    "results": [],
    "ordered": False,
    "printing": {},
}
CALLS_PYTHON = ["host callback", "python"]


def called_back(*calls: list[str], platform: str = "cpu", **changes: Any) -> Edit:
    def edit(data: dict[str, Any]) -> None:
        data["requires"] |= {"custom_calls": list(calls), "platforms": [platform]}
        if platform != "cpu":
            data["target"] = f"{platform}:h100-sxm:2"
            data["requires"]["isa"] = None
        data["calling"]["callbacks"] = [{**CALLBACK, **changes}]

    return edit


EDITS |= {
    "callback without its call": (called_back(), "1, and custom calls that say otherwise"),
    "callback platform": (called_back(CALLS_PYTHON, platform="cuda"), "is not for cpu"),
    "callback kind": (called_back(CALLS_PYTHON, kind="zork"), "a 'zork' of 'pack.host:log'"),
    "callback name": (called_back(CALLS_PYTHON, call="os; x:y"), "a 'debug' of 'os; x:y' is none"),
    "print name": (called_back(CALLS_PYTHON, kind="print"), "a 'print' of 'pack.host:log'"),
    "callback tree": (called_back(CALLS_PYTHON, tree=["zork"]), "'zork' is no kind of node"),
    "callback leaf": (called_back(CALLS_PYTHON, statics=[[2, 1]]), r"\[2\] are not indices"),
    "callback value": (called_back(CALLS_PYTHON, statics=[[1, {"fn": 1}]]), "cannot be decoded"),
    "tokens": (calling(tokens=["io", "io"]), "are not among debug, io"),
}


TEMPLATE = {"like": "pack.m:init", "values": [["n", 3]], "root": [0]}


def compared(*templates: dict[str, Any], like: str = "pack.m:init") -> Edit:
    def edit(data: dict[str, Any]) -> None:
        node = ["node", "pack.m:State", {"tuple": [1, {"reference": like}]}, "*"]
        tree(["tuple", ["tuple", node], ["dict", ["scale"], "*"]])(data)
        data["calling"]["templates"] = list(templates)

    return edit


EDITS |= {
    "template missing": (
        compared(),
        r"\[0, 0\] is compared with pack.m:init, not with one of \[\]",
    ),
    "template elsewhere": (compared(TEMPLATE | {"root": [1]}), r"not with one of \[\]"),
    "template twice": (compared(TEMPLATE, TEMPLATE), "not with one of"),
    "template of another": (compared(TEMPLATE, like="pack.m:other"), "with pack.m:other, not with"),
    "template unused": (compared(TEMPLATE, TEMPLATE | {"root": [1]}), "'pack.m:init' is none"),
    "template name": (compared(TEMPLATE | {"like": "os; x:y"}, like="os; x:y"), "x:y' is none"),
    "template value": (compared(TEMPLATE | {"values": [["n", {"name": "a:b"}]]}), "is none"),
    "template alone": (calling(templates=[TEMPLATE]), "'pack.m:init' is none"),
}


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


def test_a_callback_is_read_back() -> None:
    data = record_to_json(make_record())
    called_back(CALLS_PYTHON)(data)
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


def test_the_record_itself_is_read() -> None:
    assert record_from_json(record_to_json(make_record())) == make_record()


@pytest.mark.parametrize("name", EDITS)
def test_contradictions_are_refused(name: str) -> None:
    edit, expected = EDITS[name]
    data = copy.deepcopy(record_to_json(make_record()))
    edit(data)
    with pytest.raises(ValueError, match=expected):
        record_from_json(data)
