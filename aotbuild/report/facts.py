"""The facts of a package: what its index says, sorted for reading, and its totals.

No blob is read. Names and estimates in a record are untrusted data: read them through the functions
here and in `words`, which accept any value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aotbuild.errors import InvalidIndex, UnknownFunction
from aotbuild.format.dist_info import Distribution, distribution_at
from aotbuild.format.index import INDEX_NAME, Index
from aotbuild.format.record import Blob, Constant, Record
from aotbuild.format.signature import Function
from aotbuild.format.tree import LEAF, Tree, children_of
from aotbuild.format.values import shown as decoded_text
from aotbuild.report.words import natural, shown, target_order
from aotbuild.runtime.checked_blobs import Source, open_index

# Of a signature's key, where labels alone do not tell it from another.
_KEY_DIGITS = 8


@dataclass(frozen=True)
class SignatureFacts:
    """One signature: its label as the manifest writes it, its key, and a record per target.

    `input_names` are those of the leaves of its arguments, as `params['layers'][0]`.
    """

    label: str
    key: str
    records: tuple[Record, ...]
    input_names: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The avals of all leaves, with the names of symbolic dims if there are any."""
        for record in self.records:
            symbolic = record.provenance.get("symbolic_leaves")
            if isinstance(symbolic, list):
                return tuple(shown(leaf) for leaf in symbolic)
        return tuple(str(aval) for aval in self.records[0].signature.leaves)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The avals of all outputs, if a record states them."""
        return tuple(str(aval) for r in self.records[:1] for aval in r.calling.outputs)

    @property
    def donated(self) -> frozenset[int]:
        """The indices of the inputs that a call takes away."""
        return frozenset(index for record in self.records for index in record.calling.donated)

    @property
    def dims(self) -> dict[str, Any]:
        """The size of each dim, or its expression where it is symbolic."""
        found = self.records[0].provenance.get("dims")
        return dict(found) if isinstance(found, dict) else {}

    @property
    def statics(self) -> tuple[tuple[str, Any], ...]:
        """The static arguments, encoded."""
        return self.records[0].signature.statics


@dataclass(frozen=True)
class FunctionFacts:
    """One function and its signatures."""

    function: Function
    signatures: tuple[SignatureFacts, ...]

    @property
    def name(self) -> str:
        """The name under `functions:` of the manifest."""
        return self.function.name

    @property
    def records(self) -> list[Record]:
        """Every executable of the function."""
        return [record for signature in self.signatures for record in signature.records]


@dataclass(frozen=True)
class PackageFacts:
    """One package: where it is, what its index's header says, and its functions."""

    place: str
    header: dict[str, Any]
    digest: str
    index_size: int
    functions: tuple[FunctionFacts, ...]

    @cached_property
    def distribution(self) -> Distribution | None:
        """The distribution that the package belongs to; None for a folder that none lists."""
        return distribution_at(self.place, self.header)

    @property
    def name(self) -> str:
        """The import package that received `_aot`."""
        return shown(self.header.get("package", "?"))

    @property
    def records(self) -> list[Record]:
        """Every executable."""
        return [record for function in self.functions for record in function.records]

    @property
    def blobs(self) -> dict[str, Blob]:
        """Every blob in the package once, by its path below `_aot/`."""
        return {blob.path: blob for record in self.records for blob in record.blobs()}

    @property
    def signature_count(self) -> int:
        """The number of signatures of all functions."""
        return sum(len(function.signatures) for function in self.functions)


def read_facts(source: Source, only: str | None = None) -> PackageFacts:
    """Return the facts of a source, or of one function of it.

    Raises InvalidIndex or UnsupportedFormat for a bad index, UnknownFunction for a bad `only`.
    """
    index = open_index(source)
    names = sorted({function.name for function in index.functions()}, key=natural)
    if only is not None:
        if only not in names:
            known = [shown(name) for name in names]
            raise UnknownFunction(shown(index.header.get("package", "?")), only, known)
        names = [only]
    functions = tuple(facts for name in names if (facts := _function(index, name)) is not None)
    size = len(source.read(INDEX_NAME))
    return PackageFacts(source.path, index.header, index.digest, size, functions)


def _function(index: Index, name: str) -> FunctionFacts | None:
    function = index.function(name)
    if function is None:
        return None
    by_key: dict[str, list[Record]] = {}
    for record in index.records(name):
        by_key.setdefault(record.signature.key(), []).append(record)
    labels = _labels(by_key)
    found = [_signature(function, labels[key], key, records) for key, records in by_key.items()]
    found.sort(key=lambda signature: (natural(signature.label), signature.key))
    return FunctionFacts(function, tuple(found))


def _labels(by_key: dict[str, list[Record]]) -> dict[str, str]:
    """Return a label for each signature; no two are the same."""
    first = {key: min(records, key=_record_order) for key, records in by_key.items()}
    labels = {key: shown(record.label) for key, record in first.items()}
    times = Counter(labels.values())
    return {k: v if times[v] == 1 else f"{v} #{k[:_KEY_DIGITS]}" for k, v in labels.items()}


def _signature(function: Function, label: str, key: str, records: list[Record]) -> SignatureFacts:
    ordered = tuple(sorted(records, key=_record_order))
    try:
        names = _argument_names(function.dynamic, ordered[0].signature.tree)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as err:
        # The schema of a record says nothing of its trees, which a call compares as a whole.
        place, found = f"{ordered[0]}: trees", f"{type(err).__name__}: {err}"
        raise InvalidIndex(place, "trees with children", found) from err
    # A key of a dict may be any text.
    return SignatureFacts(label, key, ordered, tuple(map(shown, names)))


def _argument_names(dynamic: Sequence[str], tree: Tree) -> list[str]:
    """Return the name of each leaf of `(args, kwargs)`, as `params['layers'][0]`.

    The fields of a registered type are not in its description, so its children have numbers.
    """
    args, kwargs = children_of(tree)
    keys = kwargs[1] if kwargs[0] == "dict" else ()
    named = [*zip(dynamic, children_of(args), strict=False)]
    named += zip(keys, children_of(kwargs), strict=False)
    return [name for start, child in named for name in _leaf_names(child, str(start))]


def _leaf_names(tree: Tree, name: str) -> Iterator[str]:
    if tree == LEAF:
        yield name
        return
    for index, child in enumerate(children_of(tree)):
        step = decoded_text(tree[1][index]) if tree[0] == "dict" else index
        yield from _leaf_names(child, f"{name}[{step}]")


def _record_order(record: Record) -> tuple[Any, ...]:
    return target_order(record.target), natural(record.requires.jaxlib or "")


def compared_places(function: Function) -> list[dict[str, str]]:
    """Return the places of static data that is compared with a template's, with `module:attr`."""
    return [{"place": place, "like": like} for place, *_, like in function.references]


def short_label(signature: SignatureFacts) -> str:
    """Return a label without the name of its function, as `batch=8 after feedback`, or `-`."""
    name, label = shown(signature.records[0].function), signature.label
    if not label.startswith(f"{name}(") or ")" not in label:
        return label
    values, _, suffix = label[len(name) + 1 :].rpartition(")")
    return f"{values}{suffix}".strip() or "-"


def targets(facts: PackageFacts) -> list[str]:
    """Return every target by its name, executables first."""
    ordered = sorted({record.target for record in facts.records}, key=target_order)
    return [shown(str(target)) for target in ordered]


def constants(facts: PackageFacts) -> list[tuple[Constant, int]]:
    """Return every hoisted constant once, the largest first, and how many executables use it."""
    found: dict[str, tuple[Constant, int]] = {}
    for record in facts.records:
        for path, constant in {c.blob.path: c for c in record.calling.constants}.items():
            found[path] = (constant, found[path][1] + 1 if path in found else 1)
    return sorted(found.values(), key=lambda pair: (-pair[0].blob.size, pair[0].blob.sha256))


def total_size(facts: PackageFacts) -> int:
    """Return the bytes of the index and of every blob, equal blobs counted once."""
    return facts.index_size + sum(blob.size for blob in facts.blobs.values())


# Entries of the provenance that differ for each executable.
_OF_ONE_UNIT = frozenset({*("stablehlo", "floats", "golden", "shrink.check", "shrink.note")})
# What the compiler chose for one executable has a table of its own, too.
CHOICES = "choices"


def settings(record: Record) -> Iterator[tuple[str, Any]]:
    """Yield the settings of the whole build, without those of a single executable."""
    for name, value in provenance_items(record):
        if name not in _OF_ONE_UNIT and not name.startswith(f"{CHOICES}."):
            yield name, value


def provenance_items(record: Record) -> Iterator[tuple[str, Any]]:
    """Yield the inputs and settings of an executable by name, such as `config.jax_enable_x64`."""
    for name, value in sorted(record.provenance.items()):
        if name in ("label", "dims", "symbolic_leaves"):
            continue
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", item) for inner, item in sorted(value.items()))
        else:
            yield name, value
