"""The YAML underneath: what is refused, where, and in which words."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from support.manifests import refused, whole

from aotbuild.errors import ManifestError
from aotbuild.manifest import load_manifest, parse_manifest

HEAD = "version: 1\npackage: p\nfunctions:\n  f:\n    call: m:f\n"


def problems(text: str) -> list[str]:
    """Return all problems of a text as they are shown."""
    with pytest.raises(ManifestError) as caught:
        parse_manifest(text, "aot.yaml")
    return [str(problem) for problem in caught.value.problems]


class TestSurprises:
    @pytest.mark.parametrize(
        ("text", "remedy"),
        [
            ("no", "for the text, or false for the boolean"),
            ("12:30", "for the text"),
            ("010", "for the text, or 10 for the number"),
            ("2024-01-31", "for the text"),
            ("1e-6", "for the text, or 1.0e-06 for the number"),
        ],
    )
    def test_message(self, text: str, remedy: str) -> None:
        found = problems(f"{HEAD}    env: {{A: {text}}}\n")
        differs = f"YAML 1.1 and YAML 1.2 read '{text}' differently"
        assert found == [
            f'aot.yaml:6:14: functions.f.env.A: {differs}; write "{text}" in quotes {remedy}'
        ]

    @pytest.mark.parametrize(
        "text",
        [
            *("yes", "No", "ON", "off", "1_000", "0b101", "0o17", "08", "1:30:00", "1:30.5", "="),
            *(
                "-.5",
                "2001-12-14t21:59:43.10-05:00",
                "1_0.5",
                "1e400",
                "9" * 301,
                "0x" + "f" * 5000,
            ),
        ],
    )
    def test_refused(self, text: str) -> None:
        assert problems(f"{HEAD}    env: {{A: {text}}}\n")[0].startswith("aot.yaml:6:14: ")

    def test_quoted_is_text(self) -> None:
        manifest = parse_manifest(f"{HEAD}    env: {{A: \"no\", B: '12:30', C: y}}\n")
        assert manifest.functions["f"].env == {"A": "no", "B": "12:30", "C": "y"}

    @pytest.mark.parametrize(
        ("text", "value"),
        [("0x1F", 31), ("1.0e+3", 1000.0), ("-7", -7), (".5", 0.5), ("~", None), ("True", True)],
    )
    def test_agreed_on(self, text: str, value: object) -> None:
        manifest = parse_manifest(f"{HEAD}    config: {{jax_a: {text}}}\n")
        assert manifest.functions["f"].config == {"jax_a": value}

    def test_merge_key(self) -> None:
        assert problems(f"{HEAD}    <<: {{}}\n")[0] == (
            "aot.yaml:6:5: functions.f: YAML 1.1 and YAML 1.2 read '<<' differently; "
            "write the keys out"
        )

    def test_boolean_key(self) -> None:
        found = problems("version: 1\npackage: p\nfunctions:\n  on: {call: m:f}\n")
        assert [line.split(";")[0] for line in found] == [
            "aot.yaml:4:3: functions: YAML 1.1 and YAML 1.2 read 'on' differently"
        ]


class TestKeys:
    def test_duplicate(self) -> None:
        assert problems(f"{HEAD}    call: m:g\n") == [
            "aot.yaml:6:5: functions.f: the key 'call' is already on line 5; remove one of the two"
        ]

    def test_what_a_duplicate_has_below_it_is_nowhere(self) -> None:
        found = problems("version: 1\npackage: p\nfunctions:\n  f: {}\n  f: {call: m:f}\n")
        assert found == [
            (
                "aot.yaml:4:6: functions.f: the key 'call' is missing "
                "(Where the function is: module:qualname)"
            ),
            "aot.yaml:5:3: functions: the key 'f' is already on line 4; remove one of the two",
        ]

    @pytest.mark.parametrize("key", ["[1]", "{a: 1}", "null", "true", "1.5"])
    def test_of_another_kind(self, key: str) -> None:
        found = problems(f"{HEAD}    env:\n      ? {key}\n      : b\n")
        assert "a key must be text or a whole number" in found[0]


class TestAliasesAndTags:
    def test_alias(self) -> None:
        found = problems(f"{HEAD}    env: &e {{A: a}}\n    config: *e\n")
        assert found == [
            ("aot.yaml:7:13: functions.f.config: aliases are refused, found *e; write it out")
        ]

    def test_bomb(self) -> None:
        lines = ["a0: &a0 [x, x, x, x]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
        assert all(str(p) for p in problems("\n".join(lines)))

    @pytest.mark.parametrize(
        "tag", ["!!python/object/apply:os.system", "!foo", "!!binary", "!!str", "!<tag:x,1:y>", "!"]
    )
    def test_tag(self, tag: str) -> None:
        found = problems(f"{HEAD}    env: {{A: {tag} aGk=}}\n")
        assert found[0].startswith("aot.yaml:6:14: functions.f.env.A: tags are refused, found ")


class TestWhole:
    def test_empty(self) -> None:
        message = "aot.yaml:1:1: the file is empty; expected a map that begins with version: 1"
        assert [problems(text) for text in ("", "# only\n", "---\n...\n")] == [[message]] * 3

    def test_not_a_map(self) -> None:
        assert problems("- version: 1\n") == [
            "aot.yaml:1:1: expected a map that begins with version: 1, found a list"
        ]

    def test_two_documents(self) -> None:
        assert problems(f"{HEAD}---\na: 1\n") == [
            "aot.yaml:6:1: a second document begins; a manifest is one document"
        ]

    @pytest.mark.parametrize("text", ["[" * 5000, "{a: " * 5000, "- " * 5000, "? " * 5000])
    def test_too_deep(self, text: str) -> None:
        assert "nested deeper than 64 levels" in problems(text)[0]

    def test_deep_enough(self) -> None:
        spec = "[" * 50 + "null" + "]" * 50
        assert "f" in parse_manifest(f"{HEAD}    args: [x: {spec}]\n").functions

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("a:\n\tb: 1\n", "2:1: a tab cannot indent or separate in YAML; use spaces"),
            (
                "a: b: c\n",
                "1:5: a ':' is not expected here; check the indentation, or put the text in quotes",
            ),
            ("a: [1\n", "2:1: not valid YAML: expected ',' or ']', but got '<stream end>'"),
            ("a: 'b\n", "2:1: the text ends within quotes, brackets or braces"),
            ("a:\n  - b\n c: d\n", "3:2: this line fits none above it; check the indentation"),
            (
                "a: [f32[2], i32[]]\n",
                '1:8: between brackets or braces, quote specs such as "f32[8]"',
            ),
            ("a: \x01\n", "1:4: the character U+0001 is not allowed in YAML"),
            ('a: "\\UFFFFFFFF"\n', "1:7: not valid YAML: a malformed number or escape"),
            ('a: "\\ud800"\n', "1:4: a: an escape stands for half a character (a lone surrogate)"),
        ],
    )
    def test_syntax(self, text: str, problem: str) -> None:
        assert f"aot.yaml:{problem}" in problems(text)

    def test_syntax_error_after_other_problems(self) -> None:
        found = problems("a: no\nb: [1\n")
        assert len(found) == 2
        assert found[0].startswith("aot.yaml:1:4: a: YAML 1.1 and YAML 1.2 read 'no' differently")

    def test_problems_are_capped(self) -> None:
        assert len(problems("".join(f"k{i}: 1\n" for i in range(2000)))) == 1000


class TestFile:
    def test_missing(self, tmp_path: Path) -> None:
        path = tmp_path / "aot.yaml"
        with pytest.raises(ManifestError) as caught:
            load_manifest(path)
        assert str(caught.value) == (
            f"1 problem in the manifest:\n{path}:1:1: no such file; expected a YAML manifest: "
            "write it, or give the path of another"
        )

    def test_missing_from_a_source_distribution(self, tmp_path: Path) -> None:
        (tmp_path / "PKG-INFO").touch()
        with pytest.raises(ManifestError, match="in this source distribution; select it under"):
            load_manifest(tmp_path / "aot.yaml")

    def test_directory(self, tmp_path: Path) -> None:
        with pytest.raises(ManifestError, match="a directory; expected a YAML file"):
            load_manifest(tmp_path)

    def test_not_utf8(self, tmp_path: Path) -> None:
        path = tmp_path / "aot.yaml"
        path.write_bytes(b"version: 1\npackage: \xff\n")
        with pytest.raises(ManifestError) as caught:
            load_manifest(path)
        (problem,) = caught.value.problems
        assert str(problem) == f"{path}:2:10: not UTF-8 (byte 0xff); save the file as UTF-8"

    def test_too_large(self, tmp_path: Path) -> None:
        path = tmp_path / "aot.yaml"
        path.write_bytes(b"#" * ((1 << 20) + 1))
        with pytest.raises(ManifestError, match="larger than 1048576 bytes"):
            load_manifest(path)

    @pytest.mark.parametrize("data", [HEAD.encode(), b"\xef\xbb\xbf" + HEAD.encode()])
    @pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
    def test_digest_of_the_bytes(self, tmp_path: Path, data: bytes, ending: bytes) -> None:
        path = tmp_path / "aot.yaml"
        path.write_bytes(data.replace(b"\n", ending))
        manifest = load_manifest(path)
        assert manifest.digest == hashlib.sha256(path.read_bytes()).hexdigest()
        assert manifest.file == str(path)


def test_todo_is_refused_once_at_each_place() -> None:
    entry = "call: m:f, args: [x: TODO], kwargs: {k: TODO}, dims: {b: TODO}, donate: [x, TODO]"
    left = 'TODO is left here; write the value, or "TODO" in quotes for the text'
    assert refused(whole(entry=entry)) == [
        f"functions.f.args.0.x: {left}",
        f"functions.f.kwargs.k: {left}",
        f"functions.f.dims.b: {left}",
        f"functions.f.donate.1: {left}",
    ]
    quoted = "call: m:f, args: [x: 'f32[4]'], static: {mode: ['TODO']}"
    assert parse_manifest(whole(entry=quoted)).functions["f"].static == {"mode": ("TODO",)}
