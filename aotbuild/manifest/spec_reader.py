"""Read the specs of one signature from YAML nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from aotbuild.format.aval import parse_spec
from aotbuild.format.dtypes import long_dtype
from aotbuild.format.words import did_you_mean, quote
from aotbuild.manifest.names import reference_problem
from aotbuild.manifest.nodes import (
    ListNode,
    MapNode,
    Mark,
    Node,
    Report,
    ScalarNode,
    Steps,
    child,
    describe,
)
from aotbuild.manifest.specs import (
    ArgSpec,
    DictSpec,
    LeafSpec,
    LikeSpec,
    ListSpec,
    NoneSpec,
    TupleSpec,
)
from aotbuild.manifest.todo import TODO, spec_message

LONG_KEYS = ("shape", "dtype", "weak_type")
LIKE_KEYS = ("like", "dims", "static", "like_run")
# Each of these is the only key of its map.
_ALONE = ("dict", "tuple")
RESERVED = ("shape", "dtype", "like", *_ALONE)
_LONGEST = 200


@dataclass
class SpecReader:
    """Reads the specs of one signature.

    `dims` and `statics` are the names that the function declares, None where nobody knows them.
    `is_whole` is False after a spec that has a `TODO`, whose dims are not known.
    """

    report: Report
    dims: tuple[str, ...] | None = None
    statics: tuple[str, ...] | None = None
    used: set[str] = field(default_factory=set)
    is_whole: bool = True

    def read(self, node: Node, steps: Steps) -> ArgSpec:
        """Return the spec in a node; a problem leaves a `NoneSpec` in its place."""
        if isinstance(node, ListNode):
            return ListSpec(self._items(node, steps))
        if isinstance(node, MapNode):
            return self._map(node, steps)
        if node.value is None:
            return NoneSpec()
        if isinstance(node.value, str):
            return self._text(node.mark, node.value, steps)
        found = f"found {describe(node)}"
        return self._refuse(node.mark, steps, f"expected a spec such as 'f32[8,128]', {found}")

    def _refuse(self, mark: Mark, steps: Steps, message: str) -> NoneSpec:
        self.report(mark, steps, message)
        return NoneSpec()

    def _items(self, node: ListNode, steps: Steps) -> tuple[ArgSpec, ...]:
        return tuple(self.read(item, (*steps, i)) for i, item in enumerate(node.items))

    def _text(self, mark: Mark, text: str, steps: Steps) -> ArgSpec:
        if len(text) > _LONGEST:
            return self._refuse(mark, steps, f"a spec of {len(text)} characters; too long")
        todo = spec_message(text)
        self.is_whole = self.is_whole and todo is None and text != TODO
        if todo:
            return self._refuse(mark, steps, todo)
        try:
            shape, dtype, weak = parse_spec(text)
        except ValueError as err:
            return self._refuse(mark, steps, str(err))
        self._check_dims(mark, steps, (dim for dim in shape if isinstance(dim, str)))
        return LeafSpec(shape, dtype, weak)

    def _check_dims(self, mark: Mark, steps: Steps, dims: Iterable[str], where: str = "") -> None:
        for dim in dims:
            self.used.add(dim)
            if self.dims is not None and dim not in self.dims:
                message = f"unknown dim {quote(dim)}{where}{_hint(dim, self.dims, 'dims')}"
                self.report(mark, steps, message)

    def _check_statics(
        self, mark: Mark, steps: Steps, names: Iterable[str], where: str = ""
    ) -> None:
        for name in names:
            if self.statics is not None and name not in self.statics:
                hint = _hint(name, self.statics, "static")
                self.report(mark, steps, f"unknown static argument {quote(name)}{where}{hint}")

    def _map(self, node: MapNode, steps: Steps) -> ArgSpec:
        keys = node.keys()
        if keys == ("dict",):
            return self._dict(node.entries[0][1], (*steps, "dict"))
        if keys == ("tuple",):
            return self._tuple(node.entries[0][1], (*steps, "tuple"))
        if "like" in keys:
            return self._like(node, steps)
        if "shape" in keys or "dtype" in keys:
            return self._long(node, steps)
        if any(key in keys for key in _ALONE):
            return self._refuse(node.mark, steps, _ambiguous(keys))
        return self._dict(node, steps)

    def _dict(self, node: Node, steps: Steps) -> ArgSpec:
        if not isinstance(node, MapNode):
            return self._refuse(
                node.mark, steps, f"expected a map of specs, found {describe(node)}"
            )
        items = []
        for key, value in node.entries:
            if not isinstance(key.value, str):
                message = f"the key of a dict pytree is text, found {describe(key)}; quote it"
                self.report(key.mark, steps, message)
            items.append((str(key.value), self.read(value, (*steps, key.value))))
        return DictSpec(tuple(items))

    def _tuple(self, node: Node, steps: Steps) -> ArgSpec:
        if not isinstance(node, ListNode):
            found = describe(node)
            return self._refuse(node.mark, steps, f"expected a list of specs, found {found}")
        return TupleSpec(self._items(node, steps))

    def _unknown_keys(self, node: MapNode, steps: Steps, known: tuple[str, ...]) -> bool:
        """Report the keys that a form does not have; return whether there were any."""
        unknown = [key for key, _ in node.entries if key.value not in known]
        for key in unknown:
            hint = did_you_mean(key.value, known) or f"; {_wrap(node.keys())}"
            message = f"unknown key {quote(key.value)} beside {known[0]!r}{hint}"
            self.report(key.mark, steps, message)
        return bool(unknown)

    def _like(self, node: MapNode, steps: Steps) -> ArgSpec:
        if self._unknown_keys(node, steps, LIKE_KEYS):
            return NoneSpec()
        text, dims, static, run = (child(node, key) for key in LIKE_KEYS)
        assert text is not None, "a map with the key `like` is read here"
        message = reference_problem(text.value if isinstance(text, ScalarNode) else None)
        if message or not isinstance(text, ScalarNode):
            return self._refuse(text.mark, (*steps, "like"), f"{message}, found {describe(text)}")
        found = self._names(dims, (*steps, "dims"), "dim", "batch")
        given = self._names(static, (*steps, "static"), "static argument", "causal")
        if dims:
            self._check_dims(dims.mark, (*steps, "dims"), found)
        if static:
            self._check_statics(static.mark, (*steps, "static"), given)
        for name in sorted({*found} & {*given}):
            message = f"{quote(name)} is a dim and a static argument; the function gets it by name"
            self.report(node.mark, steps, message)
        return LikeSpec(str(text.value), found, given, self._flag(run, (*steps, "like_run")))

    def _names(self, node: Node | None, steps: Steps, kind: str, example: str) -> tuple[str, ...]:
        if node is None:
            return ()
        items = node.items if isinstance(node, ListNode) else ()
        names = [str(n.value) for n in items if isinstance(n, ScalarNode) and _is_text(n)]
        if not isinstance(node, ListNode) or len(names) != len(items):
            self.report(node.mark, steps, f"expected a list of {kind} names, such as [{example}]")
            return ()
        if len(set(names)) != len(names):
            self.report(node.mark, steps, f"a {kind} is listed twice")
        return tuple(names)

    def _long(self, node: MapNode, steps: Steps) -> ArgSpec:
        if self._unknown_keys(node, steps, LONG_KEYS):
            return NoneSpec()
        values = {str(key.value): value for key, value in node.entries}
        missing = [key for key in ("shape", "dtype") if key not in values]
        if missing:
            message = f"the key {missing[0]!r} is missing; {_wrap(node.keys())}"
            return self._refuse(node.mark, steps, message)
        shape = self._shape(values["shape"], (*steps, "shape"))
        dtype = self._dtype(values["dtype"], (*steps, "dtype"))
        return LeafSpec(shape, dtype, self._weak(values.get("weak_type"), dtype, steps))

    def _shape(self, node: Node, steps: Steps) -> tuple[int | str, ...]:
        if not isinstance(node, ListNode):
            message = f"expected a list of sizes and dim names, found {describe(node)}"
            self.report(node.mark, steps, message)
            return ()
        return tuple(self._size(item, (*steps, i)) for i, item in enumerate(node.items))

    def _size(self, node: Node, steps: Steps) -> int | str:
        value = node.value if isinstance(node, ScalarNode) else None
        if isinstance(value, str) and value.isidentifier():
            self._check_dims(node.mark, steps, [value])
            return value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            return value
        message = f"expected a size or the name of a dim, found {describe(node)}"
        self.report(node.mark, steps, message)
        return 0

    def _dtype(self, node: Node, steps: Steps) -> str:
        text = node.value if isinstance(node, ScalarNode) else None
        if not isinstance(text, str) or len(text) > _LONGEST:
            self.report(node.mark, steps, f"expected the name of a dtype, found {describe(node)}")
            return "float32"
        try:
            return long_dtype(text)
        except ValueError as err:
            self.report(node.mark, steps, str(err))
            return "float32"

    def _weak(self, node: Node | None, dtype: str, steps: Steps) -> bool:
        weak = self._flag(node, (*steps, "weak_type"))
        if node and weak and dtype.startswith("key<"):
            self.report(node.mark, (*steps, "weak_type"), f"dtype {dtype} has no weak type")
        return weak

    def _flag(self, node: Node | None, steps: Steps) -> bool:
        value = node.value if isinstance(node, ScalarNode) else None
        if node is not None and not isinstance(value, bool):
            self.report(node.mark, steps, f"expected true or false, found {describe(node)}")
        return value is True


def _hint(name: str, known: tuple[str, ...], option: str) -> str:
    declared = f"known: {', '.join(known)}" if known else f"declare it under {option}:"
    return did_you_mean(name, known) or f"; {declared}"


def _is_text(node: ScalarNode) -> bool:
    return isinstance(node.value, str) and node.value.isidentifier()


def _wrap(keys: Iterable[object]) -> str:
    taken = " and ".join(repr(key) for key in keys if key in RESERVED)
    return f"a dict pytree with {taken} as keys is written {{dict: {{…}}}}"


def _ambiguous(keys: Iterable[object]) -> str:
    taken = " and ".join(repr(key) for key in keys if key in _ALONE)
    return f"{taken} must be the only key; a dict pytree with such keys is written {{dict: {{…}}}}"
