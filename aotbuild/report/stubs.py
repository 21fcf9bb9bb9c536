"""Stubs of a package: the types of its functions for type checkers, read from the index alone."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from aotbuild.format.about import About
from aotbuild.format.index import Index
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.values import decode
from aotbuild.report.stub_types import Arrays, Types
from aotbuild.report.words import printable
from aotbuild.runtime.described import kernel_doc

_BY_POSITION = ("positional_only", "positional_or_keyword")
_VARIADIC = ("var_positional", "var_keyword")
_HEAD = '''\
# mypy: disable-error-code="type-arg"
"""Types of the functions of {package}. Written by `aotbuild stubs`: write it again after a build.

    if TYPE_CHECKING:
        from {module} import {name}

    library: {name} = aotbuild.load("{package}"{arrays})
"""
'''
# What tells a stub from a module that somebody wrote.
BEGINS = re.compile(re.escape(_HEAD[: _HEAD.index("{")]).encode())


@dataclass(frozen=True)
class _Slot:
    """A parameter of a call: its kind in the source, its type, and whether a call may omit it."""

    name: str
    kind: str
    type: str
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.type}{' = ...' if self.optional else ''}"


@dataclass
class _Names:
    """Names of classes, each given once."""

    used: set[str] = field(default_factory=set)

    def of(self, text: str, ending: str = "") -> str:
        """Return a name of the parts of a text, as `DigitsClassifier`."""
        parts = re.split(r"[\W_]+", text)
        name = "".join(part[:1].upper() + part[1:] for part in parts) + ending
        name = f"_{name}" if not name.isidentifier() or keyword.iskeyword(name) else name
        while name in self.used:
            name += "_"
        self.used.add(name)
        return name


def stub_text(index: Index, arrays: str, module: str, name: str | None = None) -> str:
    """Return the stub of a package.

    `arrays` is `jax` or `numpy`, as for `load`; `module` is what the stub is imported as; `name` is
    that of the library's class.
    """
    names, types = _Names(), Types(Arrays.of(arrays))
    package = printable(_escaped(str(index.header.get("package", "package"))))
    library = names.of(name or package.rpartition(".")[2])
    functions = sorted(index.functions(), key=lambda function: function.name)
    kernels = [(function, names.of(function.name, "Kernel")) for function in functions]
    bodies = ["\n".join(_kernel(name, function, index, types)) for function, name in kernels]
    option = ', arrays="numpy"' if arrays == "numpy" else ""
    head = _HEAD.format(package=package, module=module, name=library, arrays=option)
    imports = "\n".join(types.imports(has_overloads="@overload" in "".join(bodies)))
    last = "\n".join(_library(library, package, kernels))
    text = "\n\n".join([f"{head}\n{imports}", *bodies, last]) + "\n"
    # What does not print stands in docstrings, where Python reads its escapes.
    return "\n".join(map(printable, text.split("\n")))


def _library(name: str, package: str, kernels: Sequence[tuple[Function, str]]) -> Iterator[str]:
    yield f"class {name}(TypedLibrary, Protocol):"
    yield f'    """The precompiled functions of {package}."""'
    for function, kernel in kernels:
        if function.name.isidentifier() and not keyword.iskeyword(function.name):
            yield f"\n    @property\n    def {function.name}(self) -> {kernel}: ..."


def _kernel(name: str, function: Function, index: Index, types: Types) -> Iterator[str]:
    """Yield the lines of the class of a kernel, with one `__call__` for each kind of arguments."""
    others = filter(None, map(index.function, function.overloads))
    calls: dict[tuple[_Slot, ...], dict[str, None]] = {}
    for each in (function, *others):
        records = list(index.first_records(each.name))
        for record in records:
            slots = tuple(_slots(each, record, records, types))
            calls.setdefault(slots, {})[types.result(each, record)] = None
    yield f"class {name}(TypedKernel, Protocol):"
    yield f"    {_quoted(kernel_doc(function, index))}"
    for slots, results in calls.items():
        overload = "    @overload\n" if len(calls) > 1 else ""
        parameters = ", ".join(["self", *_parameters(slots)])
        yield f"\n{overload}    def __call__({parameters}) -> {' | '.join(results)}: ..."
    if not calls:
        yield "\n    def __call__(self, *args: Any, **kwargs: Any) -> Any: ..."


def _slots(
    function: Function, record: Record, records: Sequence[Record], types: Types
) -> Iterator[_Slot]:
    """Yield what a call may give, in the order of the source; the rest is compiled in."""
    given = dict(types.arguments(function, record))
    statics = {static.name: static for static in function.statics}
    about = About.of(function.about)
    known = [(p.name, p.kind) for p in about.parameters if p.kind not in _VARIADIC]
    known = known or [(name, "positional_or_keyword") for name in function.positional]
    listed = {name for name, _ in known}
    rest = [name for name in (*given, *statics) if name not in listed]
    can_be_placed = True
    for name, kind in chain(known, ((name, "keyword_only") for name in rest)):
        if name not in given and name not in statics:
            # Nothing after it can be given by position.
            can_be_placed = False
            continue
        by_name = kind if can_be_placed or kind not in _BY_POSITION else "keyword_only"
        if name in statics:
            yield _Slot(name, by_name, _static_type(name, records), statics[name].has_default)
        else:
            yield _Slot(name, by_name, given[name])


def _parameters(slots: Sequence[_Slot]) -> Iterator[str]:
    """Yield the parameters as Python writes them, with `/` and `*` where they are needed."""
    placed, named = [], []
    has_default = False
    for slot in slots:
        # A parameter without a default cannot follow one with a default.
        if slot.kind not in _BY_POSITION or (has_default and not slot.optional):
            named.append(slot)
            continue
        has_default = has_default or slot.optional
        placed.append(slot)
    last = max((i for i, s in enumerate(placed) if s.kind == "positional_only"), default=-1)
    for number, slot in enumerate(placed):
        yield str(slot)
        if number == last:
            yield "/"
    if named:
        yield "*"
        yield from map(str, named)


def _static_type(name: str, records: Sequence[Record]) -> str:
    """Return the type of a static argument by its compiled values; texts are a `Literal`."""
    values = []
    for record in records:
        try:
            values.append(decode(dict(record.signature.statics)[name]))
        except (ValueError, KeyError):
            return "Any"
    texts = sorted({value for value in values if type(value) is str})
    kinds = [f"Literal[{', '.join(map(repr, texts))}]"] if texts else []
    kinds += sorted({type(v).__name__ for v in values if type(v) in (bool, int, float)})
    kinds += ["None"] if None in values else []
    is_plain = all(value is None or type(value) in (str, bool, int, float) for value in values)
    return " | ".join(kinds) if is_plain and kinds else "Any"


def _escaped(text: str) -> str:
    """Return text that ends no docstring."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _quoted(text: str) -> str:
    """Return a docstring, indented."""
    lines = [f"    {line}".rstrip() for line in _escaped(text).splitlines()]
    body = "\n".join(lines).strip()
    return f'"""{body}\n    """'
