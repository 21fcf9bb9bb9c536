"""The manifest of what was found in sources, as text: with TODO for what they do not say."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aotbuild.manifest.names import function_name_problem
from aotbuild.record.flow import UNKNOWN, flow
from aotbuild.record.schema_file import SCHEMA_LINE
from aotbuild.record.source_avals import TODO, dims_of
from aotbuild.record.source_functions import SourceArgument, SourceFunction

_ENTRY, _OPTION, _ITEM = "  ", "    ", "      "
_HEAD = "# Replace each TODO; `aotbuild plan` says what to write there."


@dataclass(frozen=True)
class DraftEntry:
    """The entry of a function: its name in the manifest, its lines, and how many TODOs are left."""

    name: str
    function: SourceFunction
    lines: tuple[str, ...]

    @property
    def todos(self) -> int:
        """The number of places that a person has to fill in."""
        return sum(len(_TODO.findall(line.partition("  #")[0])) for line in self.lines)


_TODO = re.compile(rf'(?<!")\b{TODO}\b(?!")')


def draft_entries(
    functions: Iterable[SourceFunction], taken: Iterable[str] = ()
) -> list[DraftEntry]:
    """Return the entries of functions; none has a name that is `taken`."""
    names = [*taken]
    found = []
    for function in functions:
        name = function_name(function.call, names)
        names.append(name)
        found.append(DraftEntry(name, function, tuple(_lines(name, function))))
    return found


def manifest_text(package: str, entries: Sequence[DraftEntry]) -> str:
    """Return the text of a manifest."""
    head = [SCHEMA_LINE]
    if any(entry.todos for entry in entries):
        head.append(_HEAD)
    head += ["version: 1", f"package: {package}", "functions:"]
    return "\n".join([*head, *(line for entry in entries for line in entry.lines)]) + "\n"


# --- names ----------------------------------------------------------------------------------------


def function_name(call: str, taken: Collection[str]) -> str:
    """Return a name for the Library: that of the function, longer if it is taken."""
    module, _, qualname = call.partition(":")
    parts = [part.strip("_") for part in (*module.split("."), *map(_snake, qualname.split(".")))]
    if qualname.endswith(".__call__"):  # the class says what it is
        parts.pop()
    parts = [part for part in parts if part]
    for length in range(1, len(parts) + 1):
        name = "_".join(parts[-length:])
        if name not in taken and not function_name_problem(name):
            return name
    name, number = "_".join(parts), 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _snake(name: str) -> str:
    """Return the name of a class as that of a function: `TrainState` as `train_state`."""
    if not name[:1].isupper():
        return name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


# --- entries --------------------------------------------------------------------------------------


def _lines(name: str, function: SourceFunction) -> Iterator[str]:
    yield f"{_ENTRY}{flow(name)}:"
    for note in function.notes:
        yield f"{_OPTION}# {note}"
    yield f"{_OPTION}call: {function.call}"
    if function.args is None:
        yield f"{_OPTION}args: {TODO}"
    elif function.args:
        yield f"{_OPTION}args:"
        yield from (f"{_ITEM}- {_argument(each)}" for each in function.args)
    if function.kwargs:
        yield f"{_OPTION}kwargs:"
        yield from (f"{_ITEM}{_argument(each)}" for each in function.kwargs)
    specs = [each.spec for each in (*(function.args or ()), *function.kwargs)]
    dims = [dim for spec in specs for dim in dims_of(spec)]
    if dims:
        yield f"{_OPTION}dims: {flow(dict.fromkeys(dims, UNKNOWN))}"
    if function.static:
        static = {each.name: [*each.values] if each.values else UNKNOWN for each in function.static}
        yield f"{_OPTION}static: {flow(static)}"
    for option, value in function.options.items():
        yield f"{_OPTION}{option}: {flow(_marked(value) if option == 'mesh' else value)}"


def _marked(mesh: dict[str, Any] | str) -> Any:
    if isinstance(mesh, str):
        return UNKNOWN
    return {axis: UNKNOWN if size == TODO else size for axis, size in mesh.items()}


def _argument(argument: SourceArgument) -> str:
    # A spec that is copied needs no word on where it is from.
    is_copied = argument.origin.replace(" ", "") == argument.spec
    comment = f"  # {argument.origin}" if argument.origin and not is_copied else ""
    return f"{flow(argument.name)}: {argument.spec}{comment}"
