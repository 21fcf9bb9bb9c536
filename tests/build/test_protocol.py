"""Every message of the worker protocol, as a line and back; and lines that are no message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from support.manifests import manifest
from support.records import make_function, make_record

from aotbuild.build import protocol
from aotbuild.build.jobs import FedLeaf, make_jobs
from aotbuild.build.plan import make_plan
from aotbuild.build.protocol import NotAMessage, WrongVersion, read_reply, read_request, to_line
from aotbuild.format.record import Blob, Golden
from aotbuild.toolchains.toolchain import probe

ENTRY = (
    "call: m:f, args: [x: ['f32[n]', {like: 'm:t', dims: [n]}]], kwargs: {y: null}, "
    "dims: {n: [4, 8]}, static: {k: [[[1, true]]]}, donate: [x], compiler_options: {o: 1.5}, "
    "in_shardings: {x: {0: [d]}}, mesh: {d: 1}, env: {A: ü}, config: {jax_a: true}, pad: {n: .nan}"
)
(_, JOB, _), *_ = make_jobs(make_plan(manifest("", ENTRY), probe()).units)
BLOB = Blob("safetensors", "0" * 64, 3)
FED = {"x": (FedLeaf(dtype="float32", weak_type=True), FedLeaf(dtype="int8", weak_type=False))}
REQUESTS: list[protocol.ToWorker] = [
    protocol.Hello(blobs=Path("/blobs")),
    protocol.Hello(
        blobs=Path("/not utf-8 \udcff"),
        store=Path("/store"),
        behind=True,
        secret_paths=("/home/mé",),
        provenance={"jax": "0.10.2"},
        config=(("jax_enable_x64", True), ("jax_a", float("inf"))),
    ),
    protocol.Fetched(found=True),
    protocol.RunJob(job=JOB),
    protocol.RunJob(job=JOB.after_feedback(FED).after_feedback(FED)),
]
REPLIES: list[protocol.Reply] = [
    protocol.Ready(),
    protocol.Wanted(key="0" * 64),
    protocol.Started(doing="importing mypkg.model"),
    protocol.Started(stage="compile", target="cpu:x86-64-v3:1"),
    protocol.Started(stage="shrink"),
    protocol.Compiled(
        target="cpu:x86-64-v3:2", function=make_function(), record=make_record(), notes=("a\nb",)
    ),
    protocol.Compiled(
        target="cpu:x86-64-v3:2", function=make_function(), record=make_record(), plain=BLOB
    ),
    protocol.Failed(target="cpu:x86-64-v3:1", stage="trace", error="zu groß: ∞ \u2028"),
    protocol.Failed(stage="pad", error="changes"),
    protocol.GoldenOutputs(
        golden=Golden(((0, BLOB),), BLOB, 0.5), floats=("float32",), notes=("n",)
    ),
    protocol.GoldenOutputs(reason="never", notes=("n",), transient=True),
    protocol.Done(),
    protocol.Done(fed=FED, made=("0" * 64,), used=(), blobs={"0" * 64: "b"}, problems={"c": "d"}),
]


def test_all_messages_are_here() -> None:
    assert {type(message) for message in REQUESTS} == set(get_args(protocol.ToWorker))
    assert {type(message) for message in REPLIES} == set(get_args(protocol.Reply))


@pytest.mark.parametrize("message", REQUESTS, ids=lambda message: message.type)
def test_round_trip_of_a_request(message: protocol.ToWorker) -> None:
    line = to_line(message)
    assert line.count("\n") == 1
    assert to_line(read_request(line)) == line
    if not isinstance(message, protocol.RunJob):  # NaN to pad with does not equal itself
        assert read_request(line) == message


@pytest.mark.parametrize("message", REPLIES, ids=lambda message: message.type)
def test_round_trip_of_a_reply(message: protocol.Reply) -> None:
    line = to_line(message)
    assert line.count("\n") == 1
    assert read_reply(line) == message


@pytest.mark.parametrize(
    "line",
    [
        "",
        "hi",
        "[1]",
        "null",
        "{}",
        '{"type": "done"',
        '{"type": "unheard of"}',
        '{"type": ["done"]}',
        '{"type": "ready"}',
        '{"type": "done", "more": 1}',
        '{"type": "failed", "target": "cpu"}',
        json.dumps({"type": "hello", "version": protocol.VERSION, "blobs": "/b"}),
        to_line(REPLIES[5]).replace('"outputs"', '"other"'),
        "[" * 100_000,
    ],
)
def test_what_is_no_reply(line: str) -> None:
    with pytest.raises(NotAMessage) as caught:
        read_reply(line)
    assert str(caught.value).startswith(f"{line[:200]!r}: ")


@pytest.mark.parametrize("version", [0, protocol.VERSION + 1, "1", None])
def test_another_version_is_refused_whatever_else_it_says(version: object) -> None:
    expected = f"version {version} of the worker protocol, expected {protocol.VERSION}"
    for read, kind in ((read_request, "hello"), (read_reply, "ready")):
        with pytest.raises(WrongVersion) as caught:
            read(json.dumps({"type": kind, "version": version, "unheard": "of"}))
        assert str(caught.value) == expected
