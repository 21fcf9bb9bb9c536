"""Requirements and versions in METADATA: the part of PEP 508 and PEP 440 that `verify` reads.

The extra `build` brings the library `packaging`, which knows all of it. An image that only runs a
wheel doesn't have it, so this module needs Python alone. Markers are kept as text and not
evaluated. A requirement with a URL, or with `===`, has no versions that could be compared.

https://packaging.python.org/specifications/dependency-specifiers
https://packaging.python.org/specifications/version-specifiers
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

# Of names and extras: each takes a time in proportion to the length, whatever the text is.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_EXTRAS = re.compile(r"\[[A-Za-z0-9._, -]*\]", re.ASCII)
_VERSION = re.compile(
    r"v?(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>alpha|beta|preview|pre|rc|a|b|c)[-_.]?(?P<pre_number>\d*))?"
    r"(?:-(?P<implicit>\d+)|[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_number>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_number>\d*))?"
    r"(?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?",
    re.ASCII | re.IGNORECASE,
)
_SPECIFIER = re.compile(r"(===|==|!=|<=|>=|~=|<|>) *([^ ]+)")
_PHASES = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
# Digits of a number, at most: int() of a longer text takes long, and Python refuses it.
_DIGITS = 20
_Release: TypeAlias = tuple[int, ...]
# A pre-release (phase, number), a post-release and a development release, so that they sort.
_Suffix: TypeAlias = tuple[tuple[int, int], int, tuple[int, int]]
_BEFORE_ALL, _FINAL = (-1, 0), (3, 0)
_NOT_DEV = (1, 0)


@dataclass(frozen=True)
class Version:
    """A version, as it is compared. `release` has no zeros at its end."""

    epoch: int
    release: _Release
    suffix: _Suffix
    local: tuple[tuple[int, str], ...] = ()

    @property
    def public(self) -> tuple[int, _Release, _Suffix]:
        """The version without its local part."""
        return self.epoch, self.release, self.suffix

    @property
    def is_prerelease(self) -> bool:
        """Whether it comes before its release."""
        pre, _, dev = self.suffix
        return pre != _FINAL or dev != _NOT_DEV


def parse_version(text: str) -> Version:
    """Return a version; ValueError if it is none."""
    match = _VERSION.fullmatch(text.strip())
    if match is None or any(len(digits) > _DIGITS for digits in re.findall(r"\d+", text)):
        msg = f"not a version: {text[:100]!r}"
        raise ValueError(msg)
    release = tuple(map(int, match["release"].split(".")))
    while len(release) > 1 and not release[-1]:
        release = release[:-1]
    local = re.split("[-_.]", match["local"].lower()) if match["local"] else ()
    parts = tuple((int(part), "") if part.isdecimal() else (-1, part) for part in local)
    return Version(int(match["epoch"] or 0), release, _suffix(match), parts)


def _suffix(match: re.Match[str]) -> _Suffix:
    pre = _FINAL
    if match["pre"]:
        pre = _PHASES[match["pre"].lower()], int(match["pre_number"] or 0)
    is_post = match["post"] or match["implicit"]
    post = int(match["implicit"] or match["post_number"] or 0) if is_post else -1
    if not match["dev"]:
        return pre, post, _NOT_DEV
    # 1.0.dev1 comes before 1.0a1, and 1.0a1.dev1 before 1.0a1.
    dev = (0, int(match["dev_number"] or 0))
    return (_BEFORE_ALL if pre == _FINAL and post < 0 else pre), post, dev


@dataclass(frozen=True)
class Specifier:
    """One condition on a version, as `>=1.0` or `==1.*`."""

    operator: str
    text: str

    @property
    def version(self) -> Version:
        """The version that it names; the prefix of one that ends in `.*`."""
        return parse_version(self.text.removesuffix(".*"))

    def contains(self, version: Version) -> bool:
        """Return whether a version fulfills it; a pre-release counts like any other."""
        if self.operator in ("==", "!=") and self.text.endswith(".*"):
            return self._has_prefix(version, self.text[:-2]) is (self.operator == "==")
        other = self.version
        if self.operator in ("==", "!="):
            same = version == other if other.local else version.public == other.public
            return same is (self.operator == "==")
        if self.operator == "<=":
            return version.public <= other.public
        if self.operator == ">=":
            return version.public >= other.public
        if self.operator == "~=":
            stem = _release_of(self.text).rpartition(".")[0]
            return version.public >= other.public and self._has_prefix(version, stem)
        return self._is_strictly(version, other)

    def _is_strictly(self, version: Version, other: Version) -> bool:
        """Compare as `<` and `>` do: no pre-release, or no post-release, of the version named."""
        is_same = (version.epoch, version.release) == (other.epoch, other.release)
        (pre, post, _), (other_pre, other_post, _) = version.suffix, other.suffix
        if self.operator == "<":
            is_its_own = other_post < 0 or (pre, post) == (other_pre, other_post)
            excluded = is_same and is_its_own and version.is_prerelease and not other.is_prerelease
            return version.public < other.public and not excluded
        is_its_own = post >= 0 and other_post < 0 and pre == other_pre
        return version.public > other.public and not (is_same and is_its_own)

    def _has_prefix(self, version: Version, prefix: str) -> bool:
        stem = parse_version(prefix)
        epoch, release = stem.epoch, _numbers(prefix)
        padded = version.release + (0,) * (len(release) - len(version.release))
        return version.epoch == epoch and padded[: len(release)] == release


def _numbers(text: str) -> _Release:
    """Return the numbers of a release as they are written, with zeros at the end."""
    match = _VERSION.fullmatch(text.strip())
    return tuple(map(int, match["release"].split("."))) if match else ()


def _release_of(text: str) -> str:
    """Return the epoch and release of a version, without what follows."""
    match = re.match(r"(?:\d+!)?\d+(?:\.\d+)*", text)
    return match[0] if match else text


@dataclass(frozen=True)
class Requirement:
    """One line of Requires-Dist. `name` is normalized; `marker` is empty if there is none."""

    name: str
    specifiers: tuple[Specifier, ...]
    marker: str = ""
    url: str = ""

    def __str__(self) -> str:
        if self.url:
            return f"{self.name} @ {self.url}"
        return self.name + ",".join(f"{each.operator}{each.text}" for each in self.specifiers)

    def allows(self, version: Version) -> bool:
        """Return whether a version fulfills every condition."""
        return all(specifier.contains(version) for specifier in self.specifiers)


def parse_requirement(line: str) -> Requirement:
    """Return a requirement; ValueError says why it is none."""
    text = " ".join(line.split())
    name = _NAME.match(text)
    if name is None or not name[0][-1].isalnum():
        msg = "it begins with no name"
        raise ValueError(msg)
    rest = text[name.end() :].lstrip()
    if extras := _EXTRAS.match(rest):
        rest = rest[extras.end() :].lstrip()
    url, conditions, marker = _taken_apart(rest)
    specifiers = tuple(map(_specifier, conditions.split(","))) if conditions else ()
    return Requirement(normalized(name[0]), specifiers, marker.replace("'", '"'), url)


def _taken_apart(rest: str) -> tuple[str, str, str]:
    """Return the URL, the conditions and the marker of what follows a name."""
    if rest.startswith("@"):
        url, separator, marker = rest[1:].strip().partition(" ;")
        words = url.split()
        if len(words) != 1 or (separator and not marker.strip()):
            msg = f"not a URL and a marker: {rest[:100]!r}"
            raise ValueError(msg)
        return url, "", marker.strip()
    conditions, separator, marker = (part.strip() for part in rest.partition(";"))
    if separator and not marker:
        msg = "nothing after the semicolon"
        raise ValueError(msg)
    if conditions.startswith("(") and conditions.endswith(")"):
        conditions = conditions[1:-1].strip()
    return "", conditions, marker


def normalized(name: str) -> str:
    """Return the name of a distribution in normal form (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _specifier(text: str) -> Specifier:
    match = _SPECIFIER.fullmatch(text.strip())
    if match is None:
        msg = f"not a condition on a version: {text.strip()[:100]!r}"
        raise ValueError(msg)
    found = Specifier(match[1], match[2])
    if found.operator == "===":
        msg = "=== compares texts, not versions"
        raise ValueError(msg)
    if found.text.endswith(".*") and found.operator not in ("==", "!="):
        msg = f"{found.operator} takes no prefix: {text.strip()[:100]!r}"
        raise ValueError(msg)
    _ = found.version
    if found.operator == "~=" and "." not in _release_of(found.text):
        msg = f"~= needs two numbers: {text.strip()[:100]!r}"
        raise ValueError(msg)
    return found
