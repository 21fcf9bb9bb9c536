"""Call logs: what is written is read again, added up; what is damaged is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.processes import run_fresh

from aotbuild.errors import InvalidCallLog
from aotbuild.record.call_log import (
    FIRST_LINE,
    CallLog,
    CallLogWriter,
    ObservedArgument,
    ObservedCall,
    ObservedFunction,
    Tally,
    log_line,
    read_call_log,
)

FUNCTION = ObservedFunction("m:f", "", "m.py", 3, ("x", "n"), ("y",), ("n",), ("x",))
CALL = ObservedCall(
    FUNCTION.key,
    (ObservedArgument("x", {"w": ["f32[2]", None]}), ObservedArgument("y", None)),
    (("n", 3),),
    {"jax_enable_x64": True},
    {"EQX_ON_ERROR": "nan"},
)
LINES = [
    FIRST_LINE,
    log_line("function", function=FUNCTION.to_json()),
    log_line("call", call=CALL.to_json()),
    log_line("verdict", of=CALL.key, verdict="why"),
    log_line("tally", of=CALL.key, calls=3, seconds=0.5),
    log_line("outside", of="m.py:3 in f", calls=2, seconds=0.1),
]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b"".join(LINES))
    found = read_call_log(path)
    assert found == CallLog(
        {FUNCTION.key: FUNCTION},
        {CALL.key: CALL},
        {CALL.key: Tally(3, 0.5)},
        {CALL.key: "why"},
        {"m.py:3 in f": Tally(2, 0.1)},
    )


@pytest.mark.parametrize("after", [b"", b"\n", b'{"kind":"tally"\n'])
def test_a_line_that_is_cut_off_is_ignored(tmp_path: Path, after: bytes) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b"".join(LINES[:2]) + LINES[2][:-5] + after + LINES[4])
    found = read_call_log(path)
    assert (found.calls, [*found.functions]) == ({}, [FUNCTION.key])


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
        b"x\n" + LINES[0],
    ],
)
def test_another_file(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(data)
    with pytest.raises(InvalidCallLog, match=r"calls\.jsonl:[12]: not a call log"):
        read_call_log(path)


def test_a_writer_appends_to_call_logs_only(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    for _ in range(2):
        CallLogWriter(path).write(LINES[1:])
    assert read_call_log(path).tallies == {CALL.key: Tally(6, 1.0)}
    path.write_bytes(LINES[0][:-3])  # killed in its first write
    CallLogWriter(path)
    path.write_bytes(b"precious\n")
    with pytest.raises(FileExistsError, match="is no call log; name another"):
        CallLogWriter(path)


@pytest.mark.parametrize(
    ("path", "why"),
    [("/dev/full", "No space left on device"), ("gone/calls.jsonl", "No such file or directory")],
)
def test_a_failure_is_told_once(
    tmp_path: Path, path: str, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    writer = CallLogWriter(tmp_path / "calls.jsonl")
    writer.path = tmp_path / path
    for _ in range(3):
        writer.write([b"one\n"])
    told = f"aotbuild: {writer.path}: {why}; this process records nothing more\n"
    assert capfd.readouterr().err == told


@pytest.mark.process
def test_processes_at_once(tmp_path: Path) -> None:
    run_fresh(PROCESSES, str(tmp_path / "calls.jsonl"))
    found = (tmp_path / "calls.jsonl").read_bytes().splitlines(keepends=True)
    assert found[0] == LINES[0]
    assert found.count(LINES[0]) == 4
    lines = [each for each in found if each != LINES[0]]
    assert sorted(lines) == sorted(b"%d-%d\n" % (w, n) for w in range(4) for n in range(200))


PROCESSES = """
import os, sys
from pathlib import Path
from aotbuild.record.call_log import CallLogWriter

children = []
for number in range(4):
    if not (child := os.fork()):
        writer = CallLogWriter(Path(sys.argv[1]))
        for index in range(200):
            writer.write([b"%d-%d\\n" % (number, index)])
        os._exit(0)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
"""
