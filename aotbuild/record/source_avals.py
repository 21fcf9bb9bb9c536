"""Specs of arrays, from what a source says of a parameter: its annotation, comment or docstring."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from keyword import iskeyword

from aotbuild.format.aval import SHORT_DTYPES
from aotbuild.record.source import ModuleSource

TODO = "TODO"
_SHORT = {long: short for short, long in SHORT_DTYPES.items()}
# The names of jaxtyping, as its page "Array annotations" lists them, and the dtype that jax gives
# arrays of that kind by default; TODO for a name that several kinds have.
_JAXTYPING = {
    "Float": "f32",
    "Int": "i32",
    "UInt": "u32",
    "Complex": "c64",
    "Bool": "bool",
    "Key": "key<fry>",
    "BFloat16": "bf16",
    **{f"Float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"Int{bits}": f"i{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"UInt{bits}": f"u{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"Complex{bits}": f"c{bits}" for bits in (64, 128)},
    **{f"Float8{kind}": f"f8_{kind}" for kind in ("e4m3b11fnuz", "e4m3fn", "e4m3fnuz")},
    **{f"Float8{kind}": f"f8_{kind}" for kind in ("e5m2", "e5m2fnuz")},
    **dict.fromkeys(("Inexact", "Integer", "Num", "Real", "Shaped"), TODO),
}
# What a Python number is under a jit: weakly typed.
_NUMBERS = {"int": "~i32[]", "float": "~f32[]", "complex": "~c64[]", "bool": "bool[]"}
_KEYS = "write key<fry>[] for jax.random.key, u32[2] for jax.random.PRNGKey"
_ALIASES = 5
_DTYPES = "|".join(sorted((re.escape(name) for name in (*SHORT_DTYPES, *_SHORT)), key=len))
_AVAL = re.compile(rf"(?<![\w~])(~?)({_DTYPES})\[([^\[\]]*)\]")
_SHAPE = re.compile(r"(?:(?:of )?shape:?\s*)?(?:\[([^\[\]]*)\]|\(([^()]*)\))")
_OF_SHAPE = re.compile(r"\bshape:?\s*(?:\[([^\[\]]*)\]|\(([^()]*)\))")
_LONGEST = 60


@dataclass(frozen=True)
class FoundSpec:
    """A spec as the manifest has it, with TODO for what is not known, and where it is from."""

    spec: str
    origin: str = ""


def is_dim(text: str) -> bool:
    """Return whether a text can be the name of a dim."""
    return text.isascii() and text.isidentifier() and not iskeyword(text)


def dims_of(spec: str) -> list[str]:
    """Return the dims that the specs of a text name, in order."""
    names = [dim.strip() for _, _, dims in _ANY_SPEC.findall(spec) for dim in dims.split(",")]
    return [name for name in dict.fromkeys(names) if is_dim(name) and name != TODO]


_ANY_SPEC = re.compile(rf"(~?)({_DTYPES}|{TODO})\[([^\[\]]*)\]")


# --- annotations ----------------------------------------------------------------------------------


def of_annotation(module: ModuleSource, node: ast.expr | None) -> FoundSpec | None:
    """Return the spec that an annotation says; None if it says nothing of an array."""
    spec = _annotated(module, node, 0)
    if node is None or spec is None:
        return None
    shown = shorten(_unquoted(node))
    hint = f"; {_KEYS}" if "PRNGKeyArray" in shown else ""
    return FoundSpec(spec, f"{shown}{hint}")


def shorten(text: str) -> str:
    """Return a text on one line, cut."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def parsed(node: ast.expr | None) -> ast.expr | None:
    """Return an annotation; one that is written as text is read."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return ast.parse(node.value.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return node


def without_none(node: ast.expr | None) -> ast.expr | None:
    """Return what an annotation says beside None: `X` of `X | None` and of `Optional[X]`."""
    node = parsed(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        left, right = parsed(node.left), parsed(node.right)
        if isinstance(right, ast.Constant) and right.value is None:
            return without_none(left)
        if isinstance(left, ast.Constant) and left.value is None:
            return without_none(right)
    if isinstance(node, ast.Subscript) and _last(node.value) == "Optional":
        return without_none(node.slice)
    return node


def _annotated(module: ModuleSource, node: ast.expr | None, way: int) -> str | None:
    node = without_none(node)
    if isinstance(node, ast.Name) and node.id in module.assigned and way < _ALIASES:
        return _annotated(module, module.assigned[node.id], way + 1)
    if not isinstance(node, ast.Subscript):
        return _NUMBERS.get(module.dotted(node)) or _unsized(module.dotted(node))
    name, items = _last(node.value), _items(node.slice)
    if name == "Annotated" and items:
        return _annotated(module, items[0], way)
    if name in ("tuple", "Tuple"):
        return _tuple(module, items, way)
    dims = items[-1] if items else None
    if name not in _JAXTYPING or not isinstance(dims, ast.Constant):
        return None
    return _with_dims(_JAXTYPING[name], dims.value) if isinstance(dims.value, str) else None


def _unsized(dotted: str) -> str | None:
    """Return what is known of types without a shape: a scalar has none, a key may be two."""
    last = dotted.rpartition(".")[2]
    return {"PRNGKeyArray": TODO, "Scalar": "TODO[]"}.get(last)


def _tuple(module: ModuleSource, items: list[ast.expr], way: int) -> str | None:
    specs = [_annotated(module, item, way) for item in items]
    if not specs or any(spec is None or TODO in spec for spec in specs):
        return None
    return "{tuple: [" + ", ".join(f'"{spec}"' for spec in specs) + "]}"


def _items(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _with_dims(dtype: str, text: str) -> str:
    """Return the spec of jaxtyping's dims, as `batch 128`; TODO where their number is open."""
    dims = [_dim_of_jaxtyping(dim) for dim in text.split()]
    return TODO if None in dims else f"{dtype}[{','.join(filter(None, dims))}]"


def _dim_of_jaxtyping(text: str) -> str | None:
    """Return a size, a name or TODO; None for any number of dims (`...`, `*batch`)."""
    if "..." in text or "*" in text[:3]:
        return None
    # `name=4` documents a size, `#name` broadcasts, and `?name` may differ inside of a tree.
    text = text.rpartition("=")[2].lstrip("#?")
    return text if text.isdigit() or (is_dim(text) and not text.startswith("_")) else TODO


def _unquoted(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ast.unparse(node)


# --- comments and docstrings ----------------------------------------------------------------------


def of_comment(text: str) -> FoundSpec | None:
    """Return the spec that a comment says, as `f32[batch, 128]`, or `[B, T, D]` and no more."""
    aval = _AVAL.search(text)
    if aval:
        return FoundSpec(_plain(f"{aval[1]}{_short(aval[2])}", aval[3]), shorten(text))
    spec = _of_shape(_SHAPE.fullmatch(text.strip().rstrip(".")))
    return FoundSpec(spec, shorten(text)) if spec else None


def of_docstring(docstring: str, name: str) -> FoundSpec | None:
    """Return the spec that a line about a parameter says, as `x: f32[batch, 128]`."""
    about = re.compile(rf"^\W*(?:param\s+)?{re.escape(name)}\b`*\s*[:(=–-](.*)")
    for line in docstring.splitlines():
        match = about.match(line.strip())
        if match is None:
            continue
        rest = match[1]
        aval, shape = _AVAL.search(rest), _OF_SHAPE.search(rest) or _SHAPE.match(rest.strip())
        spec = _plain(f"{aval[1]}{_short(aval[2])}", aval[3]) if aval else _of_shape(shape)
        if spec:
            return FoundSpec(spec, shorten(line.strip()))
    return None


def _of_shape(match: re.Match[str] | None) -> str | None:
    """Return the spec of a bare shape; None for other things in brackets, such as a range."""
    if match is None:
        return None
    dims = match[1] if match[1] is not None else match[2]
    parts = [part.strip() for part in dims.split(",")]
    is_one_word = match[1] is None and len(parts) == 1
    if is_one_word or "0" in parts or any(" " in part or "." in part.strip(".") for part in parts):
        return None
    return _plain(TODO, dims)


def _short(dtype: str) -> str:
    return _SHORT.get(dtype, dtype)


def _plain(dtype: str, dims: str) -> str:
    """Return the spec of a shape as people write it; TODO where their number is open."""
    found = [dim.strip() for dim in dims.split(",")]
    if found and not found[-1]:  # `(n,)`
        found.pop()
    if any("..." in dim or "*" in dim[:1] for dim in found):
        return TODO
    known = (dim if dim.isdigit() or is_dim(dim) else TODO for dim in found)
    return f"{dtype}[{','.join(known)}]"
