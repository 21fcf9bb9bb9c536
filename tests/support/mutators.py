"""Mutators that know a format, for harnesses of tests/fuzz: JSON, lines of text, protocol buffers.

libFuzzer changes bytes, so most of what it makes of a JSON document is not JSON, and never reaches
the checks behind the parser. A mutator here changes the parsed value instead. Inputs stay plain
files of the format: a finding can be read, and edited.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import atheris

if TYPE_CHECKING:
    from aotbuild.format.protobuf import Field

# As libFuzzer calls it: the input, the most bytes of the result, and a seed.
Mutator = Callable[[bytes, int, int], bytes]

_NUMBERS = [0, 1, -1, 2, 255, 1.5, -0.0, 2**31, 2**53, 2**62, 2**63, -(2**63) - 1, 10**30, 1e308]
_NUMBERS += [1e-320, float("inf"), float("nan")]
_TEXTS = ["", " ", "0", "*", "none", "nan", "\0", "\x1b[2J", "\ud800", "e\u0301", "\U0001f600"]
_TEXTS += ["a.b:c", "../x", "/etc/passwd", "x" * 300, "9" * 5000, "f32[]", "f32[b]", "~i32[1,2]"]
_TEXTS += ["cpu:x86-64-v3:1", "portable:cpu:1", "1e999", "0" * 64, "int:x", "builtins:dict"]
_NESTED: list[Any] = json.loads("[" * 100 + "]" * 100)
_OTHERS: list[Any] = [None, True, False, [], {}, [[]], [None], {"": None}, {"a": 1}, _NESTED]
_OTHERS += [{"tuple": [1]}, {"dict": [["a", 1]]}, {"float": "nan"}, {"name": "m:f"}]
_ODD = [*_NUMBERS, *_TEXTS, *_OTHERS]
# One in so many mutations is one of bytes.
_BYTES_IN = 8


def mutate_json(data: bytes, max_size: int, seed: int) -> bytes:
    """Change one to three places of a JSON document; bytes of what is none."""
    rng = random.Random(seed)
    if rng.randrange(_BYTES_IN):
        try:
            return _fitting(edited(json.loads(data), rng), data, max_size)
        except (ValueError, RecursionError):
            pass
    return atheris.Mutate(data, max_size)


def mutate_json_lines(data: bytes, max_size: int, seed: int) -> bytes:
    """Change a line that is JSON, or the order of lines."""
    rng = random.Random(seed)
    lines = data.split(b"\n")
    number = rng.randrange(len(lines))
    kind = rng.randrange(_BYTES_IN)
    if kind == 0:
        return atheris.Mutate(data, max_size)
    if kind == 1:
        lines.insert(number, lines[rng.randrange(len(lines))])
    elif kind == 2:
        del lines[number]
    else:
        lines[number] = mutate_json(lines[number], max_size, seed)
    return b"\n".join(lines)[:max_size]


def mutate_words(*words: str) -> Mutator:
    """Return a mutator of text: whole lines, indentation, and values that are among `words`."""
    tokens = [*words, "", " ", ":", "[]", "{}", "''", '"', "#", "\t", "null", "-1", "1e400"]
    tokens += ["\0", "\u2028", "\ufeff", "9" * 5000, "x" * 300, "[" * 300, "{a: " * 80]

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if not rng.randrange(_BYTES_IN):
            return atheris.Mutate(data, max_size)
        lines = data.decode("utf-8", "surrogateescape").split("\n")
        for _ in range(rng.randint(1, 3)):
            _edit_lines(lines, rng, tokens)
        return "\n".join(lines).encode("utf-8", "surrogateescape")[:max_size]

    return mutate


def mutate_protobuf(data: bytes, max_size: int, seed: int) -> bytes:
    """Change a field of a protocol buffer, at any depth; lengths around it stay right."""
    rng = random.Random(seed)
    if not rng.randrange(_BYTES_IN):
        return atheris.Mutate(data, max_size)
    for _ in range(rng.randint(1, 3)):
        data = _edited_message(data, rng, 0)
    return data[:max_size]


# --- JSON -----------------------------------------------------------------------------------------


def edited(value: Any, rng: random.Random) -> Any:
    """Return a JSON value with one to three edits."""
    root = [value]
    for _ in range(rng.randint(1, 3)):
        slots = _slots(root)
        owner, key = rng.choice(slots)
        other, other_key = rng.choice(slots)
        rng.choice(_EDITS)(owner, key, copy.deepcopy(other[other_key]), rng)
    return root[0]


def _fitting(value: Any, before: bytes, max_size: int) -> bytes:
    data = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    found = data.encode("utf-8", "surrogatepass")
    return found if len(found) <= max_size else before[:max_size]


def _slots(root: list[Any]) -> list[tuple[Any, Any]]:
    """Return every place in a JSON value: the container and the key in it."""
    slots: list[tuple[Any, Any]] = []
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        for key in node if isinstance(node, dict) else range(len(node)):
            slots.append((node, key))
            if isinstance(node[key], list | dict):
                waiting.append(node[key])
    return slots


def _new(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(_ODD))


def _replace(owner: Any, key: Any, _: Any, rng: random.Random) -> None:
    owner[key] = _new(rng)


def _swap_in(owner: Any, key: Any, other: Any, _: random.Random) -> None:
    owner[key] = other


def _remove(owner: Any, key: Any, _: Any, rng: random.Random) -> None:
    if len(owner) > 1 or isinstance(owner, dict):
        del owner[key]
    else:
        owner[key] = _new(rng)


def _add(owner: Any, key: Any, other: Any, rng: random.Random) -> None:
    inside = owner[key]
    if isinstance(inside, list):
        inside.append(other)
    elif isinstance(inside, dict):
        inside[_name(rng)] = other
    else:
        owner[key] = [inside]


def _nudge(owner: Any, key: Any, _: Any, rng: random.Random) -> None:
    inside = owner[key]
    if isinstance(inside, bool):
        owner[key] = not inside
    elif isinstance(inside, int | float):
        owner[key] = inside + rng.choice((1, -1, 0.5))
    elif isinstance(inside, str) and inside:
        at = rng.randrange(len(inside))
        owner[key] = inside[:at] + rng.choice(("", "0", ":", "[", ",", "é")) + inside[at + 1 :]
    elif isinstance(inside, list):
        rng.shuffle(inside)
    else:
        owner[key] = _new(rng)


def _rename(owner: Any, key: Any, _: Any, rng: random.Random) -> None:
    if isinstance(owner, dict):
        owner[_name(rng)] = owner.pop(key)
    else:
        owner[key] = {_name(rng): owner[key]}


def _name(rng: random.Random) -> str:
    return str(_new(rng))[:20]


_EDITS = (_replace, _replace, _swap_in, _swap_in, _remove, _add, _nudge, _nudge, _rename)


# --- text -----------------------------------------------------------------------------------------


def _edit_lines(lines: list[str], rng: random.Random, tokens: list[str]) -> None:
    number = rng.randrange(len(lines))
    line = lines[number]
    kind = rng.randrange(6)
    if kind == 0:
        lines.insert(number, lines[rng.randrange(len(lines))])
    elif kind == 1 and len(lines) > 1:
        del lines[number]
    elif kind == 2:
        lines[number] = rng.choice(("  ", " ", "")) + line.lstrip(rng.choice((" ", "")))
    elif kind == 3:
        key, colon, _ = line.partition(rng.choice((":", "=", ",")))
        lines[number] = f"{key}{colon} {rng.choice(tokens)}"
    else:
        start = rng.randint(0, len(line))
        lines[number] = line[:start] + rng.choice(tokens) + line[start + rng.randrange(6) :]


# --- protocol buffers -----------------------------------------------------------------------------

_VALUES = (0, 1, 2, 127, 128, 2**31, 2**32, 2**63, 2**64 - 1)


def _edited_message(data: bytes, rng: random.Random, depth: int) -> bytes:
    # Late imports, here and below: what a harness imports before atheris is ready has no branches.
    from aotbuild.format.protobuf import Malformed, fields

    try:
        found = list(fields(data))
    except Malformed:
        found = []
    if not found:
        return data[: len(data) // 2] + rng.randbytes(rng.randrange(4)) + data[len(data) // 2 :]
    at = rng.randrange(len(found))
    parts = [field.whole for field in found]
    kind = rng.randrange(8)
    if kind == 0:
        del parts[at]
    elif kind == 1:
        parts.insert(at, rng.choice(parts))
    elif kind == 2:
        rng.shuffle(parts)
    else:
        parts[at] = _edited_field(found[at], rng, depth)
    return b"".join(parts)


def _edited_field(field: Field, rng: random.Random, depth: int) -> bytes:
    from aotbuild.format.protobuf import bytes_field, number_field

    number = field.number if rng.randrange(8) else rng.choice((1, 2, 3, 6, 35, 36, 38))
    if isinstance(field.value, int):
        return number_field(number, rng.choice((*_VALUES, field.value + 1)))
    if depth < 40 and rng.randrange(5):
        return bytes_field(number, _edited_message(field.value, rng, depth + 1))
    other = rng.choice(
        (b"", b"fusion", b"kCustom", field.value * 2, bytes_field(number, field.value))
    )
    return bytes_field(number, other)
