"""Versions and requirements without the library `packaging`, which has to agree on each."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Theirs
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version as TheirVersion

from aotbuild.verify.specifiers import Version, parse_requirement, parse_version

NUMBERS = st.sampled_from(["0", "1", "2", "10", "01"])
RELEASES = st.lists(NUMBERS, min_size=1, max_size=4).map(".".join)
EPOCHS = st.sampled_from(["", "", "", "1!"])
PRES = st.sampled_from(["", "", "a", "b1", "rc2", ".alpha1", "-c3", "_pre", "preview4"])
POSTS = st.sampled_from(["", "", ".post1", "-2", ".rev3", "r4", "post"])
DEVS = st.sampled_from(["", "", ".dev1", "dev", "-dev2"])
LOCALS = st.sampled_from(["", "", "+abc", "+1", "+1.x", "+cuda13-2"])
PUBLIC = st.tuples(EPOCHS, RELEASES, PRES, POSTS, DEVS).map("".join)
VERSIONS = st.tuples(PUBLIC, LOCALS).map("".join)
OPERATORS = st.sampled_from(["==", "!=", "<=", ">=", "<", ">", "~="])
PREFIXES = st.tuples(EPOCHS, RELEASES).map(lambda pair: "".join(pair) + ".*")


def order(version: Version) -> object:
    return (*version.public, version.local)


@given(VERSIONS, VERSIONS)
@example("1.0", "1.0.0")
@example("1.0.dev1", "1.0a1")
@example("1.0.post1.dev1", "1.0.post1")
def test_versions_sort_as_they_do_there(one: str, other: str) -> None:
    mine, theirs = (parse_version(one), parse_version(other)), (one, other)
    first, second = map(TheirVersion, theirs)
    assert (order(mine[0]) < order(mine[1])) is (first < second)  # type: ignore[operator]
    assert (mine[0] == mine[1]) is (first == second)


@given(VERSIONS, OPERATORS, PUBLIC | PREFIXES)
@example("0.post1", ">", "0a2")
@example("0rc2", "<", "0.post1")
@example("1.1.0rc1", "~=", "1.0a1")
@example("0.12.0.1", "==", "0.12.*")
def test_conditions_hold_as_they_do_there(version: str, operator: str, stated: str) -> None:
    line = f"{operator}{stated}"
    try:
        theirs = SpecifierSet(line)
    except InvalidSpecifier:
        with pytest.raises(ValueError, match=r"."):
            parse_requirement(f"jaxlib{line}")
        return
    mine = parse_requirement(f"jaxlib{line}")
    there = theirs.contains(TheirVersion(version), prereleases=True)
    assert mine.allows(parse_version(version)) is there


@pytest.mark.parametrize(
    "line",
    [
        "jax",
        "Jax_Lib.Extra==1",
        "jax[cuda13,tpu]==0.10.2",
        "jax (>=1,<2)",
        "jax >= 1 , < 2 ; python_version > '3'",
        'jaxlib==0.10.2; sys_platform == "linux" and platform_machine == "x86_64"',
        "aotbuild>=0.1,<0.2",
        "demo @ https://example.org/demo.whl ; extra == 'x'",
        "demo@file:///demo.whl",
    ],
)
def test_lines_of_metadata(line: str) -> None:
    mine, theirs = parse_requirement(line), Theirs(line)
    assert mine.name == theirs.name.lower().replace("_", "-").replace(".", "-")
    assert mine.marker == str(theirs.marker or "")
    assert mine.url == (theirs.url or "")
    stated = {f"{each.operator}{each.text}" for each in mine.specifiers}
    assert stated == {str(each) for each in theirs.specifier}


@given(st.text("abJ1.0=<>!~,;[]() @'*-_+\n", max_size=12))
@example("==1.0")
@example("jax=1")
@example("jax==")
@example("jax==1,,<2")
@example("jax==1.*.2")
@example("jax>=1.*")
@example("jax~=1")
@example("jax;")
@example("")
def test_nothing_is_taken_that_packaging_refuses(line: str) -> None:
    assume("\n" not in line)
    try:
        Theirs(line)
    except InvalidRequirement:
        assert refuses(line)


def refuses(line: str) -> bool:
    """Return whether a line is refused, or has something that is compared as text only."""
    try:
        found = parse_requirement(line)
    except ValueError:
        return True
    return bool(found.url or found.marker)


@pytest.mark.parametrize("text", ["", "x", "1.x", "1" * 5000, "1..2", "1.0+", "1.0-", "٣"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(ValueError, match="not a version"):
        parse_version(text)


@pytest.mark.parametrize(
    "line",
    [
        "a" * 100_000 + "(",
        "a" + " " * 1_000_000 + "(",
        "a" + "-" * 1_000_000,
        "a==" + "1." * 200_000,
        "a==1+" + "a." * 200_000,
        "a" + "(" * 1_000_000,
    ],
    ids=lambda line: line[:6],
)
def test_long_lines_of_a_hostile_wheel_take_no_time_to_speak_of(line: str) -> None:
    assert refuses(line)
