"""Functions of installed libraries in a recording: the manifest is that of the user's package."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.cli import run
from support.recordings import Call, argument, call, recording

from aotbuild.manifest import parse_manifest
from aotbuild.record.recorded import NothingToCompile, ProposalOptions, update_manifest
from aotbuild.record.recording import (
    VERSION,
    RecordedFunction,
    Recording,
    call_line,
    function_line,
    line_of,
    tally_line,
)

MANIFEST = Path("nowhere/aot.yaml")
SITE = "/env/lib/python3.11/site-packages"
X = argument("x", "f32[2]")
CORRECT = RecordedFunction(
    "optax.tree_utils._tree_math:correct",
    file=f"{SITE}/optax/tree_utils/_tree_math.py",
    positional=("x",),
    distribution="optax",
    version="0.2.8",
)
STEP = RecordedFunction("app.train:step", file="/src/app/train.py", positional=("x",))
IN_OPTAX = "  it is in optax 0.2.8: call what leads to it inside a jitted function of your package"


def called(
    *functions: RecordedFunction, seconds: Iterable[float] = (9.0, 1.0)
) -> list[tuple[RecordedFunction, list[Call]]]:
    times = zip(functions, seconds, strict=False)
    return [(function, [call(X, seconds=each)]) for function, each in times]


def test_a_function_of_a_library_is_left_out_with_the_library() -> None:
    found = update_manifest(recording({}, *called(CORRECT, STEP)), MANIFEST)
    model = parse_manifest(found.text)
    assert (model.package, [*model.functions]) == ("app", ["step"])
    assert [each.function.call for each in found.left_out] == [CORRECT.call]
    assert found.lines[2:] == (IN_OPTAX,)


def test_a_program_whose_own_functions_have_no_name_packages_no_library() -> None:
    closure = RecordedFunction("train:main.<locals>.step", "it is defined inside", "/src/train.py")
    with pytest.raises(NothingToCompile) as caught:
        update_manifest(recording({}, *called(closure, CORRECT)), MANIFEST)
    assert IN_OPTAX in caught.value.lines


def test_what_a_library_defines_inside_a_function_is_not_the_users_to_move() -> None:
    body = RecordedFunction(
        "numpyro.util:fori_collect.<locals>._body_fn",
        "it is defined inside a function: define it at the top of its module",
        file=f"{SITE}/numpyro/util.py",
    )
    found = update_manifest(recording({}, *called(body, STEP)), MANIFEST)
    assert found.left_out[0].reason.startswith("it is in numpyro: call what leads to it inside")


def test_an_installed_package_is_recorded_where_nothing_else_is() -> None:
    digits = RecordedFunction("digits.model:predict", file=f"{SITE}/digits/model.py")
    found = update_manifest(recording({}, *called(digits, CORRECT)), MANIFEST)
    assert "package: digits" in found.text
    assert "predict:" in found.text
    assert "correct:" not in found.text


def test_the_package_that_is_named_decides_which_functions_are_in_it() -> None:
    found = update_manifest(
        recording({}, *called(CORRECT, STEP)), MANIFEST, ProposalOptions(package="optax")
    )
    assert {"correct", "step"} == {*parse_manifest(found.text).functions}


def test_a_function_of_a_library_that_the_manifest_has_gets_its_calls(tmp_path: Path) -> None:
    manifest = tmp_path / "aot.yaml"
    manifest.write_text(
        "version: 1\npackage: app\nfunctions:\n"
        f'  correct:\n    call: {CORRECT.call}\n    args: [{{x: "f32[8]"}}]\n'
    )
    found = update_manifest(recording({}, *called(CORRECT)), manifest)
    assert parse_manifest(found.text).functions["correct"].dims == {"x_0": (2, 8)}


def test_the_command_says_what_was_found_and_that_it_is_no_manifest(tmp_path: Path) -> None:
    place = tmp_path / "calls.jsonl"
    place.write_bytes(_lines(recording({}, *called(CORRECT, RecordedFunction("m:f", "a lambda")))))
    out = tmp_path / "aot.yaml"
    result = run("record", "--from", place, "--out", out, code=3)
    assert "unexpected error" not in result.stderr
    assert IN_OPTAX in result.stderr
    assert not out.exists()


@pytest.mark.process
def test_the_exit_code_of_a_program_that_fails_is_its_own(tmp_path: Path) -> None:
    place = tmp_path / "calls.jsonl"
    lines = _lines(recording({}, *called(RecordedFunction("m:f", "it is a lambda"))))
    place.write_bytes(lines)
    program = [sys.executable, "-I", "-c", "raise SystemExit(7)"]
    options = ("--append", "--recording", place, "--out", tmp_path / "aot.yaml")
    result = run("record", *options, "--", *program, code=6)
    assert "it is a lambda" in result.stderr


def _lines(found: Recording) -> bytes:
    head = line_of("recording", {"version": VERSION})
    functions = map(function_line, found.functions.values())
    calls = map(call_line, found.calls.values())
    tallies = (tally_line(key, tally) for key, tally in found.tallies.items())
    return b"".join((head, *functions, *calls, *tallies))


def test_the_variables_that_a_library_reads_are_those_of_the_build() -> None:
    calls = [Call([X], more={"env": {"EQX_ON_ERROR": "nan"}})]
    found = update_manifest(recording({"app.train:step": calls}), MANIFEST)
    assert parse_manifest(found.text).functions["step"].env == {"EQX_ON_ERROR": "nan"}
