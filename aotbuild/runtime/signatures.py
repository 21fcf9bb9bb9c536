"""What was compiled: the signatures of a function as data, read from the index alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from aotbuild.format.about import RESULT, About, argument_names, result_names, with_inputs
from aotbuild.format.aval import Aval
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.tree import LEAF, MARKERS, Tree, children_of
from aotbuild.format.values import decode, shown
from aotbuild.format.wrap import NNX_JIT
from aotbuild.runtime.select import Verdict, select

if TYPE_CHECKING:
    from aotbuild.runtime.devices import DeviceSet
    from aotbuild.runtime.state import LibraryState

Judge: TypeAlias = Callable[[Sequence[Record]], tuple[Verdict, ...]]


@dataclass(frozen=True)
class LeafInfo:
    """One array of a call or a result. `str()` is as `params['layers'][0].w f32[16,4]`.

    Attributes:
        name: The argument and the path in its tree as jax prints it; `result…` for results.
        aval: Its shape, dtype and weak type.
        donated: Whether a call takes the array away.
    """

    name: str
    aval: Aval
    donated: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.aval}{' donated' if self.donated else ''}"


@dataclass(frozen=True)
class SignatureInfo:
    """One signature that was compiled. `str()` of it is for people.

    Attributes:
        function: The name of the function.
        label: The signature as the manifest writes it, as `predict(batch=8)`.
        dims: The size of each dim, or its expression where it is symbolic.
        statics: The value of each static argument; text for a value that Python cannot restore.
        leaves: The arrays of a call, in the order of the signature.
        results: The arrays of the result.
        arguments: The tree of each argument with an `Aval` for each array. Standard containers are
            themselves; a namedtuple or another node is a dict by the names of its children.
        result: The tree of the result, likewise.
        targets: What it was compiled for, as `cpu:x86-64-v3:1`.
        key: The identity of the signature.
    """

    function: str
    label: str
    dims: dict[str, int | str]
    statics: dict[str, Any]
    leaves: tuple[LeafInfo, ...]
    results: tuple[LeafInfo, ...]
    arguments: dict[str, Any]
    result: Any
    targets: tuple[str, ...]
    key: str
    _records: tuple[Record, ...]
    _judge: Judge

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SignatureInfo):
            return NotImplemented
        return (self.function, self._records) == (other.function, other._records)

    def __hash__(self) -> int:
        return hash((self.function, self.key))

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict on each executable for this host, best first. It asks the devices."""
        return self._judge(self._records)

    @property
    def runs(self) -> bool:
        """Whether an executable runs here. It asks the devices."""
        return any(verdict.fits for verdict in self.verdicts)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why no executable runs here, a line for each; empty if one does."""
        verdicts = self.verdicts
        return () if any(v.fits for v in verdicts) else tuple(map(str, verdicts))

    def __str__(self) -> str:
        lines = (*self.leaves, *(f"-> {leaf}" for leaf in self.results))
        return "\n  ".join([self.label, *map(str, lines)])

    def __repr__(self) -> str:
        return f"<SignatureInfo {self.label} for {', '.join(self.targets)}>"


def library_signatures(
    state: LibraryState, devices: DeviceSet | None, name: str
) -> tuple[SignatureInfo, ...]:
    """Return the signatures of a library's function; UnknownFunction if there is none."""

    def judge(records: Sequence[Record]) -> tuple[Verdict, ...]:
        return select(records, state.package.probe(devices or state.backend.default_devices()))

    return signatures_of(state.function(name), state.index.records(name), judge)


def signatures_of(
    function: Function, records: Iterable[Record], judge: Judge
) -> tuple[SignatureInfo, ...]:
    """Return the signatures of a function, small sizes first; `judge` is called when asked."""
    by_key: dict[str, list[Record]] = {}
    for record in records:
        by_key.setdefault(record.signature.key(), []).append(record)
    about = About.of(function.about)
    found = [_describe(function, about, key, same, judge) for key, same in by_key.items()]
    return tuple(sorted(found, key=_order))


def _describe(
    function: Function, about: About, key: str, records: list[Record], judge: Judge
) -> SignatureInfo:
    record = records[0]
    signature, calling = record.signature, record.calling
    donated = {index for each in records for index in each.calling.donated}
    names = argument_names(about, function.dynamic, signature.tree)
    leaves = enumerate(zip(names, signature.leaves, strict=False))
    results = zip(
        result_names(about, calling.out_tree, signature.tree, function.wrap),
        calling.outputs,
        strict=False,
    )
    out_tree = with_inputs(calling.out_tree, signature.tree)
    return SignatureInfo(
        function=function.name,
        label=label_of(record),
        dims=dims_of(record),
        statics={name: _value(value) for name, value in signature.statics},
        leaves=tuple(LeafInfo(name, aval, n in donated) for n, (name, aval) in leaves),
        results=tuple(LeafInfo(name, aval) for name, aval in results),
        arguments=_arguments(about, function, signature.tree, iter(signature.leaves)),
        result=_result(about, function, out_tree, calling.outputs),
        targets=tuple(sorted({str(each.target) for each in records})),
        key=key,
        _records=tuple(records),
        _judge=judge,
    )


def label_of(record: Record) -> str:
    """Return a signature as the manifest writes it, as `predict(batch=8)`."""
    label = record.provenance.get("label")
    plain = f"{record.function}({record.signature.describe_statics()})"
    return label if isinstance(label, str) and label else plain


def dims_of(record: Record) -> dict[str, int | str]:
    """Return the size of each dim, by name; nothing if the index does not say."""
    found = record.provenance.get("dims")
    items: Iterable[tuple[str, Any]] = found.items() if isinstance(found, dict) else ()
    return {name: size for name, size in items if isinstance(size, int | str)}


def _order(info: SignatureInfo) -> tuple[Any, ...]:
    sizes = [(isinstance(size, str), size) for size in info.dims.values()]
    return [(name, *size) for name, size in zip(info.dims, sizes, strict=True)], info.label


def _value(data: Any) -> Any:
    try:
        return decode(data)
    except ValueError:
        return shown(data)


def _arguments(
    about: About, function: Function, tree: Tree, leaves: Iterator[Aval]
) -> dict[str, Any]:
    args, kwargs = children_of(tree)
    named = [(name, (0, i)) for i, name in enumerate(function.dynamic)]
    named += [(str(name), (1, i)) for i, name in enumerate(kwargs[1])]
    trees = (*children_of(args), *children_of(kwargs))
    return {
        name: _nested(about, child, path, leaves)
        for (name, path), child in zip(named, trees, strict=False)
    }


def _result(about: About, function: Function, tree: Tree, outputs: Sequence[Aval]) -> Any:
    # The first item is what the user's function returns; see docs/reference/format.md.
    if function.wrap == NNX_JIT:
        return _nested(about, children_of(tree)[0], (RESULT, 0), iter(outputs))
    return _nested(about, tree, (RESULT,), iter(outputs))


def _nested(about: About, tree: Tree, path: tuple[int, ...], leaves: Iterator[Aval]) -> Any:
    """Return a tree of standard containers with the next avals as its leaves."""
    if tree == LEAF:
        return next(leaves, None)
    children = [
        _nested(about, child, (*path, index), leaves)
        for index, child in enumerate(children_of(tree))
    ]
    if tree[0] == "none" or tree[0] in MARKERS:
        return None
    if tree[0] in ("tuple", "list"):
        return tuple(children) if tree[0] == "tuple" else children
    if tree[0] == "dict":
        return dict(zip(map(_value, tree[1]), children, strict=True))
    steps = (about.step(tree, path, index) for index in range(len(children)))
    return dict(zip((step.strip(".[]'\"") for step in steps), children, strict=True))
