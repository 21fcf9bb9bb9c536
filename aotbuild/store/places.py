"""What AOTBUILD_STORE says: the layers of the store, from the nearest to the farthest.

::

    ~/.cache/aotbuild/store,s3://bucket/prefix?mode=ro

A layer is an absolute path or a URL of fsspec. Options follow a question mark: `mode=ro` or
`mode=rw`, and for URLs `timeout`, the seconds to wait for an answer. What else follows in a URL of
http belongs to the URL. No text made here has the user, password or query of a URL: these may be
secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from aotbuild.errors import PlanError
from aotbuild.store.owners import check_owners

VARIABLE = "AOTBUILD_STORE"
# In seconds, for one answer of a remote layer.
DEFAULT_TIMEOUT = 5.0
_LONGEST_TIMEOUT = 24 * 3600
_OFF = "off"
_URL = re.compile(r"[a-z][a-z0-9+.-]*(?:::|://)", re.IGNORECASE)
# A URL that lacks a slash, which would be a folder.
_BROKEN_URL = re.compile(r"([a-z][a-z0-9+.-]*):/", re.IGNORECASE)
# Also behind another file system, as `simplecache::https://`.
_HTTP = re.compile(r"(?:.*::)?https?://", re.IGNORECASE)
# The text that a user, a password or a token may be in.
_BEFORE_HOST = re.compile(r"^([a-z][a-z0-9+.-]*:/+)?.*@", re.IGNORECASE)
# What a URL of these begins with after the scheme.
_FIRST = {
    **dict.fromkeys(("s3", "s3a", "gs", "gcs"), "bucket"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "container"),
    **dict.fromkeys(("http", "https"), "host"),
}
_OPTION = re.compile(r"[a-z_]+(?==)")
_MODES = ("ro", "rw")


@dataclass(frozen=True)
class Place:
    """Where a layer is: a folder or a URL, and `query`, the rest of a URL of http.

    `timeout` is in seconds. The text leaves out what may be secret.
    """

    folder: Path | None = None
    url: str = field(default="", repr=False)
    query: str = field(default="", repr=False)
    writable: bool = True
    timeout: float = DEFAULT_TIMEOUT

    def __str__(self) -> str:
        return str(self.folder) if self.folder else _shown(self.url)

    def is_same(self, other: Place) -> bool:
        """Return whether it is the same folder or URL, whatever their options are."""
        return (self.folder, self.url, self.query) == (other.folder, other.url, other.query)

    @property
    def is_http(self) -> bool:
        """Whether it is on a web server, which gives files and lists none."""
        return bool(_HTTP.match(self.url))


def places(environment: Mapping[str, str]) -> tuple[Place, ...]:
    """Return the layers that AOTBUILD_STORE names, or the user's folder; none if it says `off`.

    Raises PlanError with all that is wrong with it.
    """
    chosen = environment.get(VARIABLE, "").strip()
    if not chosen:
        folder = _usual_folder(environment)
        return (Place(folder),) if folder else ()
    if chosen == _OFF:
        return ()
    found: list[Place] = []
    problems = []
    for item in map(str.strip, chosen.split(",")):
        try:
            place = parse_place(item, environment)
        except ValueError as err:
            problems.append(f"  {err}")
            continue
        if any(place.is_same(each) for each in found):
            problems.append(f"  {place}: it is named twice")
        found.append(place)
    if problems:
        listed = "\n".join(problems)
        msg = f"{VARIABLE}: expected folders and URLs with commas between them, or {_OFF}\n{listed}"
        raise PlanError(msg)
    return tuple(found)


def front_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the first folder that may be written, which a build works with; None if none may.

    PlanError if others may write to it, and AOTBUILD_STORE_STRICT refuses that.
    """
    front = next((p.folder for p in places(environment) if p.folder and p.writable), None)
    if front:
        check_owners(front, environment)
    return front


def writes_elsewhere(environment: Mapping[str, str]) -> bool:
    """Return whether a build writes what it made and used to layers behind its front, too."""
    front = front_folder(environment)
    return any(p.writable for p in places(environment) if not p.folder or p.folder != front)


def user_cache(environment: Mapping[str, str]) -> Path | None:
    """Return aotbuild's folder in the user's cache; None if nothing says where that is.

    A relative path says nothing (XDG Base Directory Specification 0.8): it would be in the project.
    """
    cache, home = (Path(environment.get(name, "")) for name in ("XDG_CACHE_HOME", "HOME"))
    if not cache.is_absolute():
        cache = home / ".cache"
    return cache / "aotbuild" if cache.is_absolute() else None


def _usual_folder(environment: Mapping[str, str]) -> Path | None:
    cache = user_cache(environment)
    return cache / "store" if cache else None


def parse_place(item: str, environment: Mapping[str, str], *, relative: bool = False) -> Place:
    """Return the layer that a text names; ValueError without what may be secret.

    Only where `relative` says so, the path of a folder may be relative to the current one.
    """
    try:
        return _place(item, environment, relative=relative)
    except ValueError as err:
        msg = f"{_shown(item) or 'an empty item'}: {err}"
        raise ValueError(msg) from err


def _place(item: str, environment: Mapping[str, str], *, relative: bool) -> Place:
    if not item or item == _OFF:
        msg = f"expected a folder or a URL; {_OFF} stands alone"
        raise ValueError(msg)
    where, _, query = item.partition("?")
    options, rest = _options(query, keeps_rest=bool(_HTTP.match(item)))
    mode = options.get("mode") or ("ro" if _HTTP.match(item) else "rw")
    if mode not in _MODES:
        msg = "mode: expected ro or rw"
        raise ValueError(msg)
    if folder := _folder(where, environment, relative=relative):
        if "timeout" in options:
            msg = "timeout: a folder has none"
            raise ValueError(msg)
        return Place(folder, writable=mode == "rw")
    if mode == "rw" and _HTTP.match(item):
        msg = "mode: http cannot be written; expected ro"
        raise ValueError(msg)
    _check_url(where)
    timeout = _seconds(options.get("timeout"))
    return Place(None, where.rstrip("/"), rest, mode == "rw", timeout)


def _folder(where: str, environment: Mapping[str, str], *, relative: bool) -> Path | None:
    """Return the folder that a path or a URL of a file names; None for other URLs."""
    if broken := None if _URL.match(where) else _BROKEN_URL.match(where):
        msg = f"expected a URL with two slashes, as {broken[1]}://…"
        raise ValueError(msg)
    if not _URL.match(where):
        return _path(where, environment, relative=relative)
    parts = urlsplit(where)
    if parts.scheme.lower() not in ("file", "local"):
        return None
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
        msg = "expected file:/// and an absolute path"
        raise ValueError(msg)
    path = unquote(parts.path)
    if "\0" in path:
        msg = "expected a path, found one with a zero byte"
        raise ValueError(msg)
    return Path(path)


def _path(where: str, environment: Mapping[str, str], *, relative: bool) -> Path:
    """Return an absolute path; ValueError for one that means another folder tomorrow."""
    path, home = Path(where), environment.get("HOME")
    first = path.parts[0] if path.parts else ""
    if first == "~" and home:
        return Path(home, *path.parts[1:])
    if first.startswith("~"):
        found = "HOME is not set" if first == "~" else f"found {first}"
        msg = f"expected ~/ for your own home, {found}: write an absolute path"
        raise ValueError(msg)
    if not relative and not path.is_absolute():
        # Builds of a wheel run in the project, whose files go into its sdist.
        absolute = Path(_shown(where)).absolute()
        msg = f"expected an absolute path or a URL, as {absolute} or s3://bucket/prefix"
        raise ValueError(msg)
    return path.absolute()


def _check_url(where: str) -> None:
    """Raise ValueError for a URL without what its scheme needs first, as the bucket."""
    scheme, separator, rest = where.rpartition("::")[2].partition("://")
    first = _FIRST.get(scheme.lower(), "path")
    if separator and (not rest.strip("/") or (rest.startswith("/") and first != "path")):
        msg = f"expected the {first} after {scheme}://"
        raise ValueError(msg)


def _options(query: str, *, keeps_rest: bool) -> tuple[dict[str, str], str]:
    """Return the options of a layer, and the rest of its query."""
    options: dict[str, str] = {}
    rest = []
    for part in filter(None, query.split("&")):
        name, equals, value = part.partition("=")
        if equals and name in ("mode", "timeout"):
            options[name] = value
        elif keeps_rest:
            rest.append(part)
        else:
            # Its value may be a secret, and a part without a name is nothing but a value.
            match = _OPTION.match(part)
            found = f"the option {match[0]}" if match else "an option without a name"
            msg = (
                f"{found}: expected mode or timeout; fsspec's own options are in its configuration"
            )
            raise ValueError(msg)
    return options, "&".join(rest)


def _seconds(text: str | None) -> float:
    if text is None:
        return DEFAULT_TIMEOUT
    try:
        seconds = float(text) if text.isascii() else 0.0
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_TIMEOUT:
        msg = f"timeout: expected seconds, more than 0 and at most {_LONGEST_TIMEOUT:,}"
        raise ValueError(msg)
    return seconds


def scheme_of(place: Place) -> str:
    """Return how fsspec finds the file system of a URL: `s3` of `s3://bucket`."""
    return re.split(r"::|://", place.url, maxsplit=1)[0].lower()


def _shown(item: str) -> str:
    """Return a path or URL without user, password and query."""
    where, _, query = item.partition("?")
    scheme, separator, rest = where.partition("://")
    if not separator:
        is_path = where.startswith(("/", "~"))
        return where if is_path else _BEFORE_HOST.sub(r"\1", where)
    if "@" in query and "@" not in rest:
        # The question mark may be in a password.
        return f"{scheme}://…"
    return f"{scheme}://{rest.rpartition('@')[2].rstrip('/')}"


def secrets_of(place: Place) -> Iterator[str]:
    """Yield the parts of a URL that no message may have, the longest first.

    What has three characters or fewer would be found by chance.
    """
    user = place.url.partition("://")[2].rpartition("@")[0]
    values = [part.partition("=")[2] for part in place.query.split("&")]
    found = {user, user.partition(":")[2], place.query, *values}
    texts = {*found, *map(unquote, found)}
    yield from sorted((text for text in texts if len(text) > 3), key=len, reverse=True)
