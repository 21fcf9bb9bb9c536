"""Requires-Dist for several toolchains: exactly their versions, as far as PEP 440 can say it."""

from __future__ import annotations

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from aotbuild.build.wheel_metadata import exactly

# Every form of a version: patches, fourth numbers, pre-, post- and development releases.
RELEASES = [
    *("0.9", "0.9.2", "0.10", "0.10.0", "0.10.1", "0.10.2", "0.10.3", "0.10.9", "0.10.14"),
    *("0.10.2.1", "0.10.2.4", "0.11", "0.11.0", "0.11.1", "0.11.9", "0.11.0.1", "0.12.0.1"),
    *("0.12", "0.12.0", "0.12.0.0", "0.12.0.2", "0.12.1", "0.12.1.1", "0.13", "0.20", "1.0", "2.1"),
]
FORMS = ["", ".post0", ".post1", ".dev1", "a1", "rc1", "rc2.dev3", ".post2.dev1"]
VERSIONS = [f"{release}{form}" for release in RELEASES for form in FORMS]


def plain(version: Version) -> tuple[int, ...]:
    """Return a release as numbers, always four."""
    return (*version.release, 0, 0, 0)[:4]


@pytest.mark.parametrize(
    "shipped",
    [
        ("0.10.2",),
        ("0.10.2", "0.12.0.1"),
        ("0.12.0.1", "0.10.2"),
        ("0.10.1", "0.10.2", "0.10.3"),
        ("0.11", "0.11.0.1"),
        ("0.10.2", "0.11", "0.12.0.1", "1.0"),
        ("0.12.0", "0.12.0.1"),
    ],
)
def test_exactly_the_shipped_versions(shipped: tuple[str, ...]) -> None:
    allowed = SpecifierSet(exactly(shipped))
    wanted = set(map(Version, shipped))
    found = {Version(v) for v in VERSIONS if allowed.contains(v, prereleases=False)}
    assert found == wanted
    # `pip --pre` gets early releases of the shipped ones too: there is no prefix for them alone.
    early = {Version(v) for v in VERSIONS if allowed.contains(v, prereleases=True)} - wanted
    assert all(v.is_prerelease and plain(v) in map(plain, wanted) for v in early), early


def test_one_version_is_pinned() -> None:
    assert exactly(["0.10.2", "0.10.2.0"]) == "==0.10.2"


def test_a_development_version() -> None:
    allowed = SpecifierSet(exactly(["0.10.2", "0.13.0.dev20261101"]))
    found = {v for v in VERSIONS if allowed.contains(v, prereleases=False)}
    assert found == {"0.10.2"}
    assert allowed.contains("0.13.0.dev20261101")
