"""What the fuzz tests share: how many examples they try, odd JSON values, and edits of valid ones.

`HYPOTHESIS_PROFILE=ci` (the default) tries the same examples every time; `long` tries twenty times
as many, other ones each time, and prints how to repeat a failure.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

T = TypeVar("T", bound=Callable[..., Any])

# Profile: how many times the examples, and whether they are the same every time.
_PROFILES = {"ci": (1, True), "long": (20, False)}


def fuzz(examples: int) -> Callable[[T], T]:
    """Run a property test on so many examples, times what the profile says."""
    factor, fixed = _PROFILES[os.environ.get("HYPOTHESIS_PROFILE", "ci")]
    return settings(
        max_examples=examples * factor,
        derandomize=fixed,
        database=None,
        print_blob=not fixed,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def nested(depth: int) -> list[Any]:
    """Return a list in a list in a list."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


ODD_NUMBERS = [0, -1, 1.5, -0.0, 2**31, 2**63, -(2**63) - 1, 10**30, 10**400, 1e308, 1e-320]
ODD_NUMBERS += [float("nan"), float("inf"), float("-inf")]
ODD_TEXTS = ["", " ", "0", "*", "none", "nan", "\0", "\x1b[2J", "\ud800", "é\u0301", "😀", "\u2028"]
ODD_TEXTS += ["__class__", "a.b:c", "../x", "x" * 300, "9" * 5000, "f32[]", "f32[b]", "~i32[1,2]"]
ODD_TEXTS += ["cpu:x86-64-v3:1", "portable:cpu:1", "1e999", "a" * 64, "0" * 64]
ODD: list[Any] = [None, True, False, [], {}, [[]], [None], {"": None}, {"\ud800": 1}, nested(150)]
ODD += [*ODD_NUMBERS, *ODD_TEXTS]
TAGS = ("tuple", "dict", "bytes", "complex", "float", "name", "enum")
BODIES: list[Any] = [[], "", "x", [[1, 2]], [1], None, {"tuple": []}, nested(3)]
ENCODED = [{tag: body} for tag in TAGS for body in BODIES]

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.sampled_from([*ODD, *ENCODED]) | st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def mutations(valid: Any, values: st.SearchStrategy[Any] = VALUES) -> st.SearchStrategy[Any]:
    """Return JSON values that are one to three edits away from a valid one."""
    return _mutated(json.dumps(valid), values)


@st.composite
def _mutated(draw: st.DrawFn, valid: str, values: st.SearchStrategy[Any]) -> Any:
    root = [json.loads(valid)]
    for _ in range(draw(st.integers(1, 3))):
        slots = _slots(root)
        owner, key = draw(st.sampled_from(slots))
        other, other_key = draw(st.sampled_from(slots))
        edit = draw(st.sampled_from(_EDITS))
        edit(owner, key, copy.deepcopy(other[other_key]), lambda: copy.deepcopy(draw(values)))
    return root[0]


def _slots(root: list[Any]) -> list[tuple[Any, Any]]:
    """Return every place in a JSON value: the container and the key in it."""
    slots: list[tuple[Any, Any]] = []
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        keys = node if isinstance(node, dict) else range(len(node))
        for key in keys:
            slots.append((node, key))
            if isinstance(node[key], list | dict):
                waiting.append(node[key])
    return slots


def _replace(owner: Any, key: Any, _: Any, new: Callable[[], Any]) -> None:
    owner[key] = new()


def _swap_in(owner: Any, key: Any, other: Any, _: Callable[[], Any]) -> None:
    owner[key] = other


def _remove(owner: Any, key: Any, _: Any, new: Callable[[], Any]) -> None:
    owner[key] = new() if isinstance(key, int) and len(owner) == 1 else owner[key]
    if len(owner) > 1:
        del owner[key]


def _add(owner: Any, key: Any, other: Any, new: Callable[[], Any]) -> None:
    inside = owner[key]
    if isinstance(inside, list):
        inside.append(other)
    elif isinstance(inside, dict):
        inside[str(new())[:20]] = other
    else:
        owner[key] = [inside]


def _nudge(owner: Any, key: Any, _: Any, new: Callable[[], Any]) -> None:
    inside = owner[key]
    if isinstance(inside, bool):
        owner[key] = not inside
    elif isinstance(inside, int | float):
        owner[key] = inside + 1
    elif isinstance(inside, str) and inside:
        owner[key] = inside[:-1] + chr(min(ord(inside[-1]) + 1, 0x10FFFF))
    elif isinstance(inside, list):
        inside.reverse()
    else:
        owner[key] = new()


def _rename(owner: Any, key: Any, _: Any, new: Callable[[], Any]) -> None:
    if isinstance(owner, dict):
        owner[str(new())[:20]] = owner.pop(key)
    else:
        owner[key] = {"a": owner[key]}


_EDITS = (_replace, _replace, _swap_in, _swap_in, _remove, _add, _nudge, _rename)
