"""Facts about fingerprints: a short list of what is in each, so that an error names a difference.

They prove nothing: two values are compared by their digests.
"""

from __future__ import annotations

import json
import platform
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from aotbuild.format.code_parts import CODE
from aotbuild.format.values import cut, shown

# (kind, name, (label, link) of each part), as `format.fingerprint` hashes them.
Form: TypeAlias = tuple[str, Any, list[tuple[str, list[Any]]]]

# So many parts of a fingerprint are kept, those near its root first, with so many characters.
_MOST_PARTS = 96
_LONGEST = 60
_CODE_LABEL = "(code)"
_NOTHING = "nothing"


@dataclass(frozen=True)
class Facts:
    """What is in one fingerprint: `parts` are (path, text).

    `python` is the minor version whose bytecode is in the digest; empty if none is.
    """

    digest: str
    python: str
    parts: tuple[tuple[str, str], ...]

    def to_json(self) -> list[Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return [self.digest, self.python, [list(part) for part in self.parts]]

    @classmethod
    def from_json(cls, data: Any) -> Facts:
        """Read what `to_json` wrote; ValueError or TypeError for anything else."""
        digest, python, parts = data
        texts = [digest, python, *(text for path, text in parts), *(path for path, _ in parts)]
        if not all(isinstance(text, str) for text in texts):
            msg = f"expected texts, found {data!r}"
            raise TypeError(msg)
        return cls(digest, python, tuple((path, text) for path, text in parts))


def differing(one: Facts, other: Facts) -> list[tuple[str, str, str]]:
    """Return the paths at which two facts differ, with the text of each; none if it is deeper."""
    mine, theirs = dict(one.parts), dict(other.parts)
    apart = [part for part in theirs if part in mine and mine[part] != theirs[part]]
    # Lists are cut, so a part that only one of them has says less.
    apart = apart or [part for part in {**theirs, **mine} if not (part in mine and part in theirs)]
    return [(part, mine.get(part, _NOTHING), theirs.get(part, _NOTHING)) for part in apart]


def make_facts(name: str, digest: str, forms: Mapping[str, Form]) -> Facts:
    """Return the facts about a fingerprint; `forms` are those of all digests in it.

    `name` is the digest that it stands for in an index.
    """
    has_code = any(forms[inner][0] == CODE for inner in _digests(digest, forms))
    version = ".".join(platform.python_version_tuple()[:2]) if has_code else ""
    return Facts(name, version, tuple(islice(_parts(digest, forms), _MOST_PARTS)))


def _digests(digest: str, forms: Mapping[str, Form]) -> set[str]:
    found, todo = {digest}, [digest]
    while todo:
        links = [link[1] for _, link in forms.get(todo.pop(), ("", None, []))[2] if link[0] == "#"]
        todo += [inner for inner in links if inner not in found]
        found.update(links)
    return found & forms.keys()


def _parts(digest: str, forms: Mapping[str, Form]) -> Iterator[tuple[str, str]]:
    """Yield paths and texts, breadth first, code last; what is shared is shown once."""
    values, code = deque([("", ["#", digest])]), deque[tuple[str, list[Any]]]()
    seen: set[str] = set()
    while values or code:
        path, (tag, target) = (values or code).popleft()
        if tag == "=":
            yield path, cut(shown(target), _LONGEST)
        elif tag == "#" and target in forms:
            if text := _text(target, forms[target]):
                yield path, cut(text, _LONGEST)
            if target not in seen:
                seen.add(target)
                for label, link in forms[target][2]:
                    is_code = forms[target][0] == CODE or label == _CODE_LABEL
                    (code if is_code else values).append((path + label, link))


def _text(digest: str, form: Form) -> str:
    """Return what a value is by itself; empty if its parts say it all."""
    kind, name, parts = form
    if kind in ("name", "function", "enum", "module", "dtype", "global", "class"):
        return str(name).replace(":", ".")
    if kind == CODE or not parts:
        return f"{kind} {digest[:8]}"
    if kind in ("array", "jax.Array"):
        return f"{json.dumps(name[:-1])} {digest[:8]}"
    return ""
