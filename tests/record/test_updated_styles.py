"""Whatever the style of a manifest: a second recording leaves what is there, and all is covered."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.recordings import Call, argument, call, recording

from aotbuild.manifest import load_manifest
from aotbuild.record.existing import NotAsMeant
from aotbuild.record.recorded import ProposalOptions, update_manifest, write

OPTIONS = ProposalOptions(max_buckets=30)
SIZES = st.integers(1, 4)
CALLS = st.dictionaries(
    st.sampled_from(["m:f", "m:g", "m.n:f"]),
    st.lists(st.tuples(SIZES, SIZES, st.sampled_from([1, True, "no"])), min_size=1, max_size=5),
    min_size=1,
)
STYLES = st.fixed_dictionaries(
    {
        "default_flow_style": st.sampled_from([True, False, None]),
        "indent": st.integers(2, 5),
        "width": st.sampled_from([30, 1000]),
        "explicit_start": st.booleans(),
        "explicit_end": st.booleans(),
        "line_break": st.sampled_from(["\n", "\r\n"]),
        "sort_keys": st.booleans(),
    }
)
COMMENTS = st.sampled_from([None, "  # é", " #"])


def calls(made: list[Any]) -> list[Call]:
    return [
        call(argument("x", f"f32[{a},{b}]"), argument("y", f"i32[{b}]"), k=k) for a, b, k in made
    ]


def restyled(text: str, style: dict[str, Any], comment: str | None) -> str:
    found = yaml.safe_dump(yaml.safe_load(text), allow_unicode=True, **style)
    newline = style["line_break"]
    if comment is None or style["width"] == 30:  # a comment cannot stand inside a text
        return found
    return newline.join(f"{line}{comment}" if line else line for line in found.split(newline))


@settings(max_examples=40)
@given(CALLS, CALLS, STYLES, COMMENTS)
def test_a_second_recording(
    first: dict[str, Any], second: dict[str, Any], style: dict[str, Any], comment: str | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "aot.yaml"
        one = recording({name: calls(made) for name, made in first.items()})
        two = recording({name: calls(made) for name, made in second.items()})
        before = restyled(update_manifest(one, path, OPTIONS).text, style, comment)
        path.write_bytes(before.encode())
        old = load_manifest(path)
        assert not update_manifest(one, path, OPTIONS).is_change
        try:
            found = update_manifest(two, path, OPTIONS)
        except NotAsMeant as err:
            if comment and "comments inside" in str(err):
                return
            raise
        write(found)
        new = load_manifest(path)
        assert [*new.functions][: len(old.functions)] == [*old.functions]
        changed = {each["name"] for each in found.functions if each["change"] == "extended"}
        assert all(new.functions[n] == f for n, f in old.functions.items() if n not in changed)
        for each in (one, two):
            assert not update_manifest(each, path, OPTIONS).is_change
