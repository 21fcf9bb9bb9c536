"""Files of trees: what recorded arguments are, as JSON beside a manifest that names them.

`{"version": 1, "trees": {"state": {"tree": …, "leaves": ["f32[batch,128]", …]}}}`: a tree is as
`format.tree` describes it, with `format.constructions` in it, and its leaves are avals whose dims
may have names. The text is the same for the same trees, and has a line for each part that fits on
one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from aotbuild.format.aval import parse_spec
from aotbuild.format.canonical import canonical_json, read_canonical
from aotbuild.format.construct import DECODERS
from aotbuild.format.constructions import MADE
from aotbuild.format.identity import NAMED
from aotbuild.format.tree import DEEPEST, HEADS, LEAF, Tree, children_of, leaf_count
from aotbuild.format.words import did_you_mean, quote

VERSION = 1
MOST_BYTES = 8 << 20
MOST_LEAVES = 100_000
_WIDTH = 100
_KEYS = ("tree", "leaves")
# The keys and indices that lead to a part of the file.
Steps: TypeAlias = tuple[str | int, ...]
# Where a problem is, and what it is.
_Found: TypeAlias = tuple[Steps, str]
_KINDS = ("none", "tuple", "list", "dict", "namedtuple", "node", "static", "shared")
_CHILDLESS = ("none", "static", "shared")
# What an identity may be of which something can be made, and a construction.
_PLAIN = {"float", "tuple", "dict", "bytes", "complex", "numpy", "dtype", "treedef", MADE}
_IDENTITIES = {*_PLAIN, *NAMED, "ordered"}
_CONSTRUCTIONS = {*_PLAIN, *DECODERS, "array"}
_REMEDY = "record it again, or name a function that makes it with like:"
_LONGEST_NAME = 200


@dataclass(frozen=True)
class DescribedTree:
    """A tree, and the specs of its leaves as text, in order."""

    tree: Tree
    leaves: tuple[str, ...]


@dataclass(frozen=True)
class TreeProblem:
    """What is wrong in a file: its line and column, both from 1, and the steps that lead there."""

    line: int
    column: int
    steps: Steps
    message: str


def render_trees(trees: Mapping[str, DescribedTree]) -> bytes:
    """Return the file of some trees, by name."""
    found = {
        name: {"leaves": [*tree.leaves], "tree": tree.tree} for name, tree in sorted(trees.items())
    }
    return f"{_text({'version': VERSION, 'trees': found}, 0)}\n".encode()


def parse_trees(text: str) -> tuple[dict[str, DescribedTree], list[TreeProblem]]:
    """Return the trees of a file by name, and its problems; what has one is left out."""
    try:
        data = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
        read_canonical(canonical_json(data))
    except json.JSONDecodeError as err:
        return {}, [TreeProblem(err.lineno, err.colno, (), f"not JSON: {err.msg}")]
    except (ValueError, RecursionError) as err:
        return {}, [TreeProblem(1, 1, (), f"not JSON of such a file: {err or 'nested too deep'}")]
    trees: dict[str, DescribedTree] = {}
    found = [*_file_problems(data)]
    for name, entry in data["trees"].items() if not found else ():
        problems = [*_entry_problems(entry, ("trees", name))]
        found += problems
        if not problems:
            trees[name] = DescribedTree(entry["tree"], tuple(entry["leaves"]))
    return trees, [_placed(text, *each) for each in found]


def names_in(tree: Tree) -> tuple[str, ...]:
    """Return what making a tree imports, as `module:name`, each once and in order."""
    return tuple(dict.fromkeys(_tree_names(tree)))


# --- writing ------------------------------------------------------------------------------------


def _text(value: Any, indent: int) -> str:
    """Return JSON that has a part on one line where it fits; no line is split otherwise."""
    line = json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)
    if indent + len(line) <= _WIDTH or not value or not isinstance(value, list | dict):
        return line
    start, end = ("[", "]") if isinstance(value, list) else ("{", "}")
    space = " " * (indent + 1)
    if isinstance(value, list):
        parts = [_text(item, indent + 1) for item in value]
    else:
        order = value.items() if "version" in value else sorted(value.items())
        parts = [f"{json.dumps(key)}: {_text(item, indent + 1)}" for key, item in order]
    return start + f",\n{space}".join(["", *parts])[1:] + f"\n{' ' * indent}{end}"


# --- positions ----------------------------------------------------------------------------------

_DECODER = json.JSONDecoder()


def _placed(text: str, steps: Steps, message: str) -> TreeProblem:
    """Return a problem with its position, in text that is JSON."""
    offset = _after_space(text, 0)
    for step in steps:
        offset = next((at for key, at in _members(text, offset) if key == step), offset)
    line_start = text.rfind("\n", 0, offset) + 1
    return TreeProblem(text.count("\n", 0, offset) + 1, offset - line_start + 1, steps, message)


def _members(text: str, offset: int) -> Iterator[tuple[str | int, int]]:
    """Yield the key or index of each member of the value there, and where its value begins."""
    is_object, index = text[offset] == "{", 0
    at = _after_space(text, offset + 1)
    while text[offset] in "[{" and text[at] not in "]}":
        key: str | int = index
        if is_object:
            key, end = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, end) + 1)
        yield key, at
        end = _after_space(text, _DECODER.raw_decode(text, at)[1])
        at, index = _after_space(text, end + (text[end] == ",")), index + 1


def _after_space(text: str, offset: int) -> int:
    while text[offset : offset + 1].isspace():
        offset += 1
    return offset


# --- reading ------------------------------------------------------------------------------------


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        msg = f"the key {quote(twice)} is there twice"
        raise ValueError(msg)
    return found


def _no_constant(name: str) -> Any:
    msg = f"{name} is no JSON"
    raise ValueError(msg)


def _file_problems(data: Any) -> Iterator[_Found]:
    if not isinstance(data, dict):
        yield (), f"expected an object with version and trees, found {_shown(data)}"
    elif data.get("version") != VERSION or isinstance(data["version"], bool):
        found = _shown(data.get("version"))
        yield (
            ("version",),
            f"expected version {VERSION}, found {found}; upgrade aotbuild, or record again",
        )
    elif not isinstance(data.get("trees"), dict):
        yield ("trees",), f"expected an object of trees by name, found {_shown(data.get('trees'))}"
    else:
        yield from _unknown_keys(data, ("version", "trees"), ())


def _unknown_keys(data: dict[str, Any], known: tuple[str, ...], at: Steps) -> Any:
    for key in data:
        if key not in known:
            hint = did_you_mean(key, known) or f"; known: {', '.join(known)}"
            yield (*at, key), f"unknown key {quote(key)}{hint}"


def _entry_problems(entry: Any, at: Steps) -> Iterator[_Found]:
    if not isinstance(entry, dict) or not {*_KEYS} <= entry.keys():
        yield at, f"expected an object with tree and leaves, found {_shown(entry)}"
        return
    yield from _unknown_keys(entry, _KEYS, at)
    problems = [*_tree_problems(entry["tree"], (*at, "tree"), 0)]
    leaves = entry["leaves"]
    if not isinstance(leaves, list) or len(leaves) > MOST_LEAVES:
        problems.append(((*at, "leaves"), f"expected a list of at most {MOST_LEAVES} avals"))
    elif not problems and leaf_count(entry["tree"]) != len(leaves):
        count = leaf_count(entry["tree"])
        problems.append(((*at, "leaves"), f"expected {count} avals, found {len(leaves)}"))
    else:
        problems += _leaf_problems(leaves, (*at, "leaves"))
    yield from problems


def _leaf_problems(leaves: list[Any], at: Steps) -> Iterator[_Found]:
    for index, leaf in enumerate(leaves):
        if not isinstance(leaf, str) or len(leaf) > _LONGEST_NAME:
            yield (*at, index), f"expected an aval such as 'f32[8,128]', found {_shown(leaf)}"
            continue
        try:
            parse_spec(leaf)
        except ValueError as err:
            yield (*at, index), str(err)


def _tree_problems(tree: Any, at: Steps, depth: int) -> Iterator[_Found]:
    if tree == LEAF:
        return
    kind = tree[0] if isinstance(tree, list) and tree else None
    if kind not in _KINDS:
        hint = did_you_mean(kind, _KINDS) if isinstance(kind, str) else ""
        expected = f"""expected "*" or a node such as ["tuple", "*"], found {_shown(tree)}"""
        yield at, f"{expected}{hint}"
        return
    reason = "nested too deep" if depth > DEEPEST else _node_problem(tree)
    if reason:
        yield at, reason
        return
    for index in range(1, HEADS[kind]):
        is_name = index == 1 and kind in ("namedtuple", "node") and isinstance(tree[1], str)
        if not is_name:
            yield from _data_problems(tree[index], (*at, index))
    for index, child in enumerate(children_of(tree), HEADS[kind]):
        yield from _tree_problems(child, (*at, index), depth + 1)


def _node_problem(tree: list[Any]) -> str | None:
    kind, rest = tree[0], len(tree) - HEADS[tree[0]]
    if rest < 0 or (rest and kind in _CHILDLESS):
        return f"a {kind} has {HEADS[kind] - 1} items before its children, found {_shown(tree)}"
    if kind in ("namedtuple", "node") and isinstance(tree[1], str) and not _is_name(tree[1]):
        return f"expected the name of a type, module:name, found {_shown(tree[1])}"
    if kind == "dict" and (not isinstance(tree[1], list) or len(tree[1]) != rest):
        return f"a dict of {rest} children has the keys {_shown(tree[1])}"
    return None


def _is_name(name: str) -> bool:
    module, colon, qualname = name.partition(":")
    parts = [*module.split("."), *qualname.split(".")] if colon else []
    return bool(parts) and len(name) <= _LONGEST_NAME and all(map(str.isidentifier, parts))


def _data_problems(data: Any, at: Steps, tags: set[str] = _IDENTITIES) -> Iterator[_Found]:
    """Yield what cannot be made of static data."""
    if isinstance(data, list):
        for index, item in enumerate(data):
            yield from _data_problems(item, (*at, index), tags)
    if not isinstance(data, dict):
        return
    tag, body = next(iter(data.items()), ("", None))
    if len(data) != 1 or tag not in tags:
        yield at, f"nothing can be made of {_shown(data)}; {_REMEDY}"
    elif tag == "treedef":
        yield from _tree_problems(body, (*at, tag), 0)
    elif tag == MADE:
        if not isinstance(body, list) or len(body) != 3 or not isinstance(body[0], str):
            yield at, f"expected a version of Python, an identity and a construction; {_REMEDY}"
        else:
            yield from _data_problems(body[2], (*at, tag, 2), _CONSTRUCTIONS)
    elif tag == "name" and not (isinstance(body, str) and _is_name(body)):
        yield at, f"expected module:name, found {_shown(body)}"
    else:
        yield from _data_problems(body, (*at, tag), tags)


def _shown(value: Any) -> str:
    return quote(json.dumps(value, ensure_ascii=False))


def _tree_names(tree: Tree) -> Iterator[str]:
    if tree == LEAF:
        return
    for index, item in enumerate(tree[: HEADS[tree[0]]]):
        is_type = index == 1 and tree[0] in ("namedtuple", "node") and isinstance(item, str)
        yield from [_short(item)] if is_type else _data_names(item)
    for child in children_of(tree):
        yield from _tree_names(child)


def _data_names(data: Any) -> Iterator[str]:
    for tag, body in data.items() if isinstance(data, dict) else ():
        if tag == "treedef":
            yield from _tree_names(body)
        elif tag == "name":
            yield _short(body)
        else:
            yield from [_short(body[0])] if tag in ("enum", "object", "function") else ()
            yield from _data_names(body[2] if tag == MADE else body)
    for item in data if isinstance(data, list) else ():
        yield from _data_names(item)


def _short(name: str) -> str:
    """Return a name without what is inside of the object that a module itself has."""
    module, _, qualname = str(name).partition(":")
    return f"{module}:{qualname.partition('.')[0]}"
