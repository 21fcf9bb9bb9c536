"""Recordings: what is written is read again, added up, and nothing else is taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotbuild.errors import InvalidCallLog
from aotbuild.format.aval import Aval
from aotbuild.record import recording
from aotbuild.record.recording import (
    Program,
    RecordedArgument,
    RecordedCall,
    RecordedFunction,
    Recording,
    Tally,
    read_recording,
)

PROGRAM = Program("a1", ("serve.py",), {"jax": "0.10.2"}, "cpu", "2026-01-31T12:00:00Z")
FUNCTION = RecordedFunction("m:apply", positional=("x", "k"), static=("k",), line=3)
LAMBDA = RecordedFunction("m:<lambda>", problem="it is a lambda", line=9)
X = RecordedArgument("x", ["list", "*"], (Aval((8, 4), "bfloat16", weak_type=True),))
CALL = RecordedCall(FUNCTION.key, (X,), statics=(("k", 3),), config={"jax_enable_x64": True})
TALLY = Tally(2, 1, 0.5, 0.25, 4.0)


def written(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(lines))
    return path


def test_what_is_written_is_read_and_added_up(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a",
        recording.first_line(),
        recording.program_line(PROGRAM),
        recording.function_line(FUNCTION),
        recording.function_line(LAMBDA),
        recording.call_line(CALL),
        recording.tally_line(CALL.key, TALLY),
        recording.call_line(CALL),
        recording.tally_line(CALL.key, TALLY),
    )
    found = read_recording(path)
    assert found == Recording(
        {"a1": PROGRAM},
        {FUNCTION.key: FUNCTION, LAMBDA.key: LAMBDA},
        {CALL.key: CALL},
        {CALL.key: Tally(4, 2, 1.0, 0.5, 8.0)},
    )
    assert found.of(FUNCTION.key) == {CALL.key: CALL}
    assert found.of(LAMBDA.key) == {}
    assert found.tally([CALL.key, "unknown"]).seconds == 9.5


def test_a_line_that_was_cut_off_is_ignored(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a",
        recording.first_line(),
        recording.function_line(FUNCTION),
        recording.call_line(CALL)[:-9],
    )
    assert read_recording(path) == Recording(functions={FUNCTION.key: FUNCTION})


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        ([b"hello\n"], 1),
        ([b'{"kind":"recording","version":99}\n'], 1),
        ([b"[]\n"], 1),
        ([recording.first_line(), b'{"kind":"call","call":{}}\n'], 2),
        ([recording.first_line(), b'{"kind":"shrug"}\n'], 2),
        ([recording.first_line(), b'{"kind":"tally","of":"a","tally":[1]}\n' * 2, b"?\n"], 4),
    ],
)
def test_what_is_no_recording(tmp_path: Path, lines: list[bytes], number: int) -> None:
    path = written(tmp_path / "a", *lines)
    with pytest.raises(InvalidCallLog, match=rf"a:{number}: not a call log"):
        read_recording(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (recording.tally_line(CALL.key, Tally(-1)), "calls: expected int, found -1"),
        (recording.tally_line(CALL.key, Tally(10**400)), "calls: expected int, found 1000"),
        (
            b'{"kind":"tally","of":"a","tally":[1,1,NaN,0,0]}\n',
            "trace_seconds: expected float, found nan",
        ),
        (
            b'{"kind":"tally","of":"a","tally":[1,1,0,0,1e999]}\n',
            "compile_seconds: expected float, found inf",
        ),
        (b'{"kind":"function","function":{"call":5}}\n', "call: expected str, found 5"),
        (b'{"kind":"function","function":{"call":"m:f","line":"3"}}\n', "line: expected int"),
        (b'{"kind":"call","call":{"function":"a","arguments":[],"mesh":[1]}}\n', "mesh: expected"),
        (
            b'{"kind":"call","call":{"function":"a","arguments":[],"statics":[[5,1]]}}\n',
            "statics: expected",
        ),
        (
            b'{"kind":"call","call":{"function":"","arguments":[{"tree":["node"],"leaves":[]}]}}\n',
            "tree: expected a node",
        ),
        (b"[" * 200_000 + b"\n", "not a call log"),
    ],
)
def test_what_no_program_records(tmp_path: Path, line: bytes, words: str) -> None:
    path = written(tmp_path / "a", recording.first_line(), line)
    with pytest.raises(InvalidCallLog) as caught:
        read_recording(path)
    assert f"{path}:2: " in str(caught.value)
    assert words in str(caught.value)
