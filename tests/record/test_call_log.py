"""Call logs: what is written is read again, added up; what is damaged is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotbuild.errors import InvalidCallLog
from aotbuild.record import call_log
from aotbuild.record.call_log import (
    CallLog,
    ObservedArgument,
    ObservedCall,
    ObservedFunction,
    Tally,
    read_call_log,
)

FUNCTION = ObservedFunction("m:f", "", "m.py", 3, ("x", "n"), ("y",), ("n",), ("x",))
CALL = ObservedCall(
    FUNCTION.key,
    (ObservedArgument("x", {"w": ["f32[2]", None]}, (["data"], None)), ObservedArgument("y", None)),
    (("n", 3),),
    {"jax_enable_x64": True},
    {"EQX_ON_ERROR": "nan"},
    {"data": 2},
    ("data",),
)
LINES = [
    call_log.first_line(),
    call_log.function_line(FUNCTION),
    call_log.call_line(CALL),
    call_log.verdict_line(CALL.key, "why"),
    call_log.tally_line(CALL.key, Tally(3, 0.5)),
]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b"".join(LINES))
    found = read_call_log(path)
    assert found == CallLog(
        {FUNCTION.key: FUNCTION}, {CALL.key: CALL}, {CALL.key: Tally(3, 0.5)}, {CALL.key: "why"}
    )
    assert read_call_log(path, path).tallies == {CALL.key: Tally(6, 1.0)}


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b"".join(LINES[:2]) + LINES[2][:-5])
    assert read_call_log(path).calls == {}


@pytest.mark.parametrize(
    "data",
    [
        b"GET / 200\n",
        b'{"kind":"call log","version":99}\n',
        LINES[0] + b'{"kind":"other"}\n',
        LINES[0] + b'{"kind":"function"}\n',
        LINES[0] + b'{"kind":"call","call":{"function":"a","arguments":[3]}}\n',
        LINES[0] + b'{"kind":"tally","of":"a","calls":"x","seconds":1}\n',
        b"[" * 100_000 + b"\n",
    ],
)
def test_another_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(data)
    with pytest.raises(InvalidCallLog, match=r"calls\.jsonl:[12]: not a call log"):
        read_call_log(path)
