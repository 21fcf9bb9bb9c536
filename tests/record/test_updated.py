"""An existing manifest: what is there stays byte for byte, and gets what it lacks."""

from __future__ import annotations

import hashlib
from pathlib import Path
from textwrap import indent

import pytest
from support.recordings import Call, argument, call, recording

from aotbuild.errors import ManifestError
from aotbuild.manifest import parse_manifest
from aotbuild.record.existing import NotAsMeant
from aotbuild.record.recorded import Proposal, update_manifest
from aotbuild.record.recording import RecordedFunction

HEAD = "version: 1\npackage: m\n"


def x(*shape: int) -> Call:
    return call(argument("x", f"f32[{','.join(map(str, shape))}]"))


def xk(batch: int, k: object) -> Call:
    return call(argument("x", f"f32[{batch},4]"), k=k)


def updated(tmp_path: Path, before: str, *calls: Call, name: str = "m:f") -> Proposal:
    path = tmp_path / "aot.yaml"
    path.write_bytes(before.encode())
    return update_manifest(recording({name: [*calls]}), path)


N4 = "f:\n  call: m:f\n  args: [{x: 'f32[n,4]'}]\n"
NK = "f:\n  call: m:f\n  args: [{x: 'f32[n,k]'}]\n"
FLOW = "f: {call: 'm:f', args: [{x: "
ROWS = "  dims:\n    - {n: 1, k: 2}\n    - n: 3\n      k: 4"


@pytest.mark.parametrize(
    ("start", "before", "calls", "after"),
    [
        # all there
        (N4, "  dims: {n: [1, 8]}", [x(8, 4)], None),
        (N4, "  dims: {n: [8]}\n  pad: {n: 0}", [x(3, 4)], None),
        (FLOW.replace("x", "y"), "'f32[n,4]'}], dims: {n: 8}}", [x(8, 4)], None),
        # one more size
        (
            N4,
            "  dims: {n: [1, 8]}  # sizes",
            [x(16, 4), x(1, 4)],
            "  dims: {n: [1, 8, 16]}  # sizes",
        ),
        (
            N4,
            "  dims:\n    n: 1 # one\n\n  # end",
            [x(16, 4)],
            "  dims:\n    n: [1, 16] # one\n\n  # end",
        ),
        (
            N4,
            "  dims:\n    n:\n    - 1 # one\n    # more",
            [x(16, 4)],
            "  dims:\n    n:\n    - 1 # one\n    # more\n    - 16",
        ),
        # rows
        (NK, ROWS, [x(5, 6)], f"{ROWS}\n    - {{n: 5, k: 6}}"),
        (NK, "  dims: [{n: 1, k: 3}]", [x(9, 4)], "  dims: [{n: 1, k: 3}, {n: 9, k: 4}]"),
        (
            NK,
            "  dims: {n: [1, 2], k: [3]}",
            [x(9, 4)],
            "  dims: [{n: 1, k: 3}, {n: 2, k: 3}, {n: 9, k: 4}]",
        ),
        # static values
        (
            N4,
            "  dims: {n: 1}\n  static: {k: 3}",
            [xk(1, 5), xk(1, "on"), xk(1, (1, None))],
            '  dims: {n: 1}\n  static: {k: [3, 5, "on", [1, null]]}',
        ),
        # a size that was no dim
        (
            "f:\n  call: m:f\n",
            "  args:\n    - x: f32[1,4]  # x\n  keep_unused: true",
            [x(8, 4)],
            "  args:\n    - x: f32[batch,4]  # x\n  keep_unused: true\n  dims: {batch: [1, 8]}",
        ),
        (FLOW, "'f32[1,4]'}]}", [x(8, 4)], "'f32[batch,4]'}], dims: {batch: [1, 8]}}"),
        (
            FLOW,
            "{shape: [n, 4], dtype: float32}}], dims: {n: 1}}",
            [x(8, 5)],
            '"f32[n,x_1]"}], dims: [{n: 1, x_1: 4}, {n: 8, x_1: 5}]}',
        ),
    ],
)
def test_an_entry_gets_what_it_lacks(
    tmp_path: Path, start: str, before: str, calls: list[Call], after: str | None
) -> None:
    def manifest(entry: str) -> str:
        return f"{HEAD}functions:\n{indent(entry, '  ')}\n# the end\n"

    found = updated(tmp_path, manifest(start + before), *calls)
    assert found.text == manifest(start + (after or before))
    assert found.is_change is (after is not None)
    Path(tmp_path / "aot.yaml").write_text(found.text)
    again = update_manifest(recording({"m:f": calls}), tmp_path / "aot.yaml")
    assert not again.is_change


@pytest.mark.parametrize(
    ("entry", "calls", "reason"),
    [
        ("args: [{x: 'f32[n,4]'}], dims: {n: 1}, static: {k: 3}", [xk(2, 5)], "all combined"),
        ("args: [{x: 'f32[4]'}]", [x(4, 4)], "an argument has 1 axes, and f32[4,4] was passed"),
        ("args: [{x: 'i32[4]'}]", [x(4)], "an argument is int32, and f32[4] was passed"),
        ("args: [{x: ['f32[4]']}]", [x(4)], "an argument has another tree"),
        ("kwargs: {y: 'f32[4]'}", [x(4)], "the call has no y by name"),
        ("args: [{x: 'f32[4]'}, {y: 'f32[4]'}]", [x(4)], "it has the arguments x, y, and the"),
        ("args: [{x: 'f32[4]'}], static: {k: 3}", [x(4)], "it has the static argument k, and"),
        ("args: [{x: 'f32[4]'}], mesh: {d: 1}", [x(4)], "its mesh is"),
        ("args: [{x: 'f32[4]'}], config: {jax_enable_x64: true}", [x(4)], "jax_enable_x64 is True"),
        ("args: [{x: 'f32[n]'}], dims: {n: 1}", [x(n) for n in range(2, 20)], "more than 8"),
        ("args: [{x: 'f32[n,4]'}], dims: {n: 1}, pad: {n: 0}", [x(1, 3)], "no dim differs"),
    ],
)
def test_what_an_entry_cannot_have_is_another_one(
    tmp_path: Path, entry: str, calls: list[Call], reason: str
) -> None:
    before = f"{HEAD}functions:\n    g: {{call: 'm:f', {entry}}}"
    found = updated(tmp_path, before, *calls)
    assert found.text.startswith(f"{before}\n\n    # ")
    assert [*parse_manifest(found.text).functions] == ["g", "g_2"]
    assert reason in "\n".join(found.lines)


def test_only_what_is_missing_is_another_entry(tmp_path: Path) -> None:
    before = f"{HEAD}functions: {{{FLOW}'f32[n,4]'}}], dims: {{n: [1]}}, static: {{k: 3}}}}}}"
    found = updated(tmp_path, before, xk(1, 3), xk(2, 5))
    assert found.text == (
        before[:-1] + ', f_2: {call: "m:f", args: [{x: "f32[2,4]"}], static: {k: [5]}}}'
    )


def test_what_like_names_is_taken_for_what_was_passed(tmp_path: Path) -> None:
    args = "[{p: {like: 'm:p'}}, {x: 'f32[n]'}]"
    before = f"{HEAD}functions:\n  f:\n    call: m:f\n    args: {args}\n    dims: {{n: [1]}}\n"
    tree = ["namedtuple", "m:P", "*"]
    calls = [call(argument("p", "f32[4]", tree=tree), argument("x", f"f32[{n}]")) for n in (1, 2)]
    found = updated(tmp_path, before, *calls)
    assert found.text == before.replace("[1]", "[1, 2]")
    assert "  taken to be what was passed: m:p" in found.lines


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", None),
        ("# mine\n", None),
        (f"{HEAD}functions:\n", f"{HEAD}functions:\n  # NEW"),
        (f"{HEAD}functions: {{}}\n", f"{HEAD}functions: \n  # NEW"),
        (f"{HEAD}functions:  # none yet", f"{HEAD}functions:\n  # NEW"),
        (f"functions: null\n{HEAD}", "functions: \n  # NEW"),
    ],
)
def test_a_manifest_without_functions(tmp_path: Path, before: str, expected: str | None) -> None:
    found = updated(tmp_path, before, x(4))
    assert [*parse_manifest(found.text).functions] == ["f"]
    start = expected or f"{before}# yaml-language-server"
    assert found.text.startswith(start.partition(" NEW")[0])


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n# last\n", "\r\n# last", "\n    # of g\n"])
def test_all_ends_of_a_file(tmp_path: Path, end: str) -> None:
    newline = "\r\n" if "\r" in end else "\n"
    before = f"{HEAD}functions:\n    g: {{call: 'm:g'}} # tab\t".replace("\n", newline) + end
    found = updated(tmp_path, before, x(4))
    new = newline.join(
        [
            *("", "", "    # 1 call, 1 signature, 1.0 s to compile", "    f:", "        call: m:f"),
            *("        args:", "            - x: f32[4]"),
        ]
    )
    kept = "\n    # of g" if "of g" in end else ""
    head = before.removesuffix(end) + kept
    assert found.text == head + new + end.removeprefix(kept)
    Path(tmp_path / "aot.yaml").write_bytes(found.text.encode())
    assert not update_manifest(recording({"m:f": [x(4)]}), tmp_path / "aot.yaml").is_change


@pytest.mark.parametrize(
    "before",
    [
        "---\nversion: 1\npackage: m\nfunctions: &a\n  ? g\n  : &b {call: 'm:g'}\n...\n",
        "{version: 1, package: m, functions: {g: {call: 'm:g',}}}",
        "{version: 1, package: m, functions: {\n  g: {call: 'm:g'},  # g\n  # end\n}}\n",
        "\ufeffversion: 1\npackage: m\nfunctions:\n g:\n  call: |-\n   m:g\n\n\n# end",
        "functions:\n  'g':\n    'call': \"m:g\"\n  # of g\n\n# of all\nversion: 1\npackage: m\n",
        "  version: 1\n  package: m\n  functions:\n     g:\n       call: m:g\n",
    ],
)
def test_other_styles(tmp_path: Path, before: str) -> None:
    state = argument("s", *["f32[2]"] * 9, tree=["list", *["*"] * 9])
    path = tmp_path / "aot.yaml"
    path.write_bytes(before.encode())
    found = update_manifest(recording({"m:f": [call(state)], "m:h": [x(2)]}), path)
    model = parse_manifest(found.text)
    assert [*model.functions] == ["g", "f", "h"]
    rest = iter(found.text)
    assert all(char in rest for char in before)


def test_what_cannot_be_edited_is_told_and_stays(tmp_path: Path) -> None:
    # A comment inside of what would be written anew.
    entry = f"{NK}  dims:\n    n: [1]  # small\n    k: [2]\n"
    before = f"{HEAD}functions:\n{indent(entry, '  ')}"
    found = updated(tmp_path, before, x(3, 4))
    assert found.text.startswith(f"{before}\n  # 1 call")
    assert "  f stays as it is: there are comments inside" in found.lines
    # What only a person can sort out.
    before = f"{{{HEAD.strip().replace(chr(10), ', ')}, functions: {{}}}}"
    with pytest.raises(NotAsMeant, match="one map in braces"):
        updated(tmp_path, before, x(3, 4))


def test_calls_of_several_entries_change_none(tmp_path: Path) -> None:
    """The first one must not get what the second one has."""
    entries = [
        f"{n}: {{call: 'm:f', args: [{{x: 'f32[n,4]'}}], dims: {{n: [{n[1]}]}}}}"
        for n in ("a1", "a2")
    ]
    before = f"{HEAD}functions:\n" + "".join(f"  {entry}\n" for entry in entries)
    found = updated(tmp_path, before, x(1, 4), x(2, 4))
    assert not found.is_change
    assert found.lines == tuple(
        f"{name} has already: 1 call, 1 signature, 1.0 s to compile" for name in ("a1", "a2")
    )
    found = updated(tmp_path, before, x(1, 4), x(2, 4), x(3, 4))
    assert found.text == before.replace("n: [1]", "n: [1, 3]")


def test_a_changed_source_is_told(tmp_path: Path) -> None:
    source = tmp_path / "m.py"
    source.write_text("def f(x): ...\n")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    about = {"positional": ("x",), "file": str(source), "distribution": "m"}
    functions = [
        RecordedFunction("m:f", digest=digest, version=each, **about) for each in ("1", "2")
    ]
    found = recording({}, *((each, [x(4)]) for each in functions))
    path = tmp_path / "aot.yaml"
    assert update_manifest(found, path).lines[1:] == (
        "recorded with m 1 and 2; record again to have one version",
    )
    source.write_text("def f(x, y): ...\n")
    assert update_manifest(found, path).lines[2] == (
        f"{source} has changed since it was recorded (f); record again if its calls have changed, "
        "too"
    )


def test_a_manifest_that_is_not_valid_is_refused(tmp_path: Path) -> None:
    for wrong in ("version: 2\n", "functions: {", f"{HEAD}functions: []\n", f"{HEAD}a: 1\n", "[]"):
        with pytest.raises(ManifestError):
            updated(tmp_path, wrong, x(4))


def test_a_platform_that_is_no_target_is_told(tmp_path: Path) -> None:
    before = f"{HEAD}targets: [portable]\nfunctions: {{g: {{call: 'm:g'}}}}\n"
    found = updated(tmp_path, before, Call([argument("x", "f32[2]")], more={"platform": "cpu"}))
    assert found.lines[-1] == "ran on cpu, which is no target of the manifest"


def test_entries_with_a_todo_are_finished(tmp_path: Path) -> None:
    before = f"""{HEAD}functions:
  # mine
  f:
    # from the source
    call: m:f
    args:
      - x: f32[TODO,4]
    dims: {{TODO: TODO}}
    static: {{k: TODO}}
    donate: [x]  # of f
  g:
    call: m:g
    args: [{{x: TODO}}]
  h: {{call: "m:h"}}
"""
    found = updated(tmp_path, before, xk(1, 5), xk(2, 5))
    assert found.text == before.replace(
        before[before.index("  f:\n") : before.index("  # of f")],
        """\
  # 2 calls, 2 signatures, 2.0 s to compile
  f:
    call: m:f
    args:
      - x: f32[batch,4]
    dims: {batch: [1, 2]}
    static: {k: [5]}
    donate: [x]""",
    )
    assert found.lines[0] == "finished f: 2 calls, 2 signatures, 2.0 s to compile"
    assert found.lines[-1] == "g still has a TODO: no call of it was recorded"
    # A second signature that does not fit is another entry.
    found = updated(tmp_path, before, xk(1, 5), call(argument("x", "i32[]")))
    assert "\n  f_2:\n    call: m:f\n" in found.text
    with pytest.raises(ManifestError, match="TODO is left here"):
        updated(tmp_path, before + "memory: a\n", xk(1, 5))


def test_a_manifest_of_todos_alone(tmp_path: Path) -> None:
    found = updated(tmp_path, f"{HEAD}functions:\n  f:\n    call: m:f\n    args: TODO\n", x(4))
    assert [*parse_manifest(found.text).functions] == ["f"]
