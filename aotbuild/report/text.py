"""A package as lines and tables for a terminal; the command prints them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from aotbuild.format.index import COMPANIONS, SOURCES
from aotbuild.format.layout import PART
from aotbuild.format.record import Record
from aotbuild.report.document import call_text, pad_text, requirement_words
from aotbuild.report.facts import (
    CHOICES,
    FunctionFacts,
    PackageFacts,
    SignatureFacts,
    compared_places,
    constants,
    settings,
    short_label,
    total_size,
)
from aotbuild.report.words import (
    bytes_accessed,
    bytes_text,
    count_text,
    flops,
    peak_text,
    plural,
    shown,
)

FUNCTION_HEADERS = ("function", "call", "signatures", "targets", "size")
EXECUTABLE_HEADERS = ("signature", "target", "kind", "size", "flops", "bytes", "peak", "needs")
_SHORT = 6
_LABELS = 3  # signatures or targets that a row of the summary names


def title_lines(facts: PackageFacts) -> Iterator[str]:
    """Yield the title: counts, the place, what built the package, and its other parts."""
    header, records = facts.header, facts.records
    parts = (
        plural(len(records), "executable"),
        plural(facts.signature_count, "signature"),
        plural(len(facts.functions), "function"),
        bytes_text(total_size(facts)),
    )
    yield f"{facts.name}: {', '.join(parts)}"
    yield f"  place     {shown(facts.place)}"
    if facts.distribution is not None:
        yield shown(f"  version   {facts.distribution.name} {facts.distribution.version}")
    yield f"  digest    {facts.digest}"
    names = [name for name in ("aotbuild", "jax", "jaxlib") if name in header]
    yield f"  built by  {', '.join(f'{name} {shown(header[name])}' for name in names) or '-'}"
    yield f"  fallback  {shown(header.get('fallback', '-'))}"
    golden = sum(record.golden is not None for record in records)
    yield f"  golden    outputs of {golden} of {plural(len(records), 'executable')}"
    if SOURCES in header:
        yield f"  sources   {plural(len(header[SOURCES]), 'module')} around it, as of this build"
    if COMPANIONS in header:
        stated = header[COMPANIONS]
        found = ", ".join(map(str, stated.values())) if isinstance(stated, dict) else stated
        yield f"  rest in   {shown(found)}"
    if PART in header:
        yield f"  part      {shown(header[PART])}"


def function_line(facts: FunctionFacts) -> str:
    """Return the name of a function and its call."""
    donate, pad = facts.function.donate, pad_text(facts.function)
    tail = f"  wrap {facts.function.wrap}" if facts.function.wrap else ""
    tail += f"  donates {', '.join(donate)}" if donate else ""
    tail += f"  pads {pad}" if pad else ""
    ignored = [place for place, *_ in facts.function.ignored]
    tail += f"  does not compare {', '.join(ignored)}" if ignored else ""
    pairs = compared_places(facts.function)
    compared = [f"{pair['place']} with that of {pair['like']}" for pair in pairs]
    tail += f"  compares {', '.join(compared)}" if compared else ""
    return shown(f"{facts.name} = {call_text(facts.function)}{tail}")


def function_rows(facts: PackageFacts) -> list[tuple[str, ...]]:
    """Return a row for each function: see `FUNCTION_HEADERS`."""
    rows: list[tuple[str, ...]] = []
    for function in facts.functions:
        records = [record for signature in function.signatures for record in signature.records]
        rows.append(
            (
                shown(function.name),
                shown(call_text(function.function)),
                _counted(map(short_label, function.signatures)),
                _counted(str(record.target) for record in records),
                bytes_text(sum(record.blob.size for record in records)),
            )
        )
    return rows


def _counted(names: Iterable[str]) -> str:
    """Return `4: a, b, c, …`: how many different names there are, and the first of them."""
    found = list(dict.fromkeys(names))
    more = ", …" if len(found) > _LABELS else ""
    return shown(f"{len(found)}: {', '.join(found[:_LABELS])}{more}") if found else "none"


def executable_rows(facts: FunctionFacts) -> list[tuple[str, ...]]:
    """Return a row for each executable of a function; see `EXECUTABLE_HEADERS`."""
    return [
        (short_label(signature), *_cells(record))
        for signature in facts.signatures
        for record in signature.records
    ]


def aval_lines(facts: FunctionFacts, *, full: bool) -> Iterator[str]:
    """Yield the arrays of each signature by name; `full` gives each a line of its own."""
    for signature in facts.signatures:
        if full:
            yield f"  {short_label(signature)}:"
            yield from (f"    {words}" for words in _leaves(signature))
        else:
            yield f"  {short_label(signature)}: {avals_text(signature)}"


def avals_text(signature: SignatureFacts) -> str:
    """Return `params['w'] f32[2], x f32[8] -> f32[8]`; long lists are cut in the middle."""
    inputs, outputs = _joined(_inputs(signature)), _joined(signature.outputs)
    return f"{inputs or 'nothing'} -> {outputs}" if outputs else inputs


def _leaves(signature: SignatureFacts) -> Iterator[str]:
    for index, words in enumerate(_inputs(signature)):
        yield f"{words} donated" if index in signature.donated else words
    yield from (f"-> {aval}" for aval in signature.outputs)


def _inputs(signature: SignatureFacts) -> list[str]:
    pairs = zip_longest(signature.input_names, signature.inputs, fillvalue="")
    return [f"{name} {aval}".strip() for name, aval in pairs]


def constant_rows(facts: PackageFacts) -> list[tuple[str, ...]]:
    """Return a row for each hoisted constant: aval, size, users, digest."""
    return [
        (str(c.aval), bytes_text(c.blob.size), plural(users, "executable"), c.blob.sha256[:12])
        for c, users in constants(facts)
    ]


def setting_rows(facts: PackageFacts) -> list[tuple[str, str]]:
    """Return each setting of the toolchain with its values: several if executables differ."""
    values: dict[str, dict[str, None]] = {}
    for record in facts.records:
        for name, value in settings(record):
            values.setdefault(name, {})[shown(value) or "(empty)"] = None
    return [(shown(name), " | ".join(found)) for name, found in sorted(values.items())]


def total_line(facts: PackageFacts) -> str:
    """Return the number and the size of the blobs, and the size of the index."""
    size = sum(blob.size for blob in facts.blobs.values())
    blobs = f"{plural(len(facts.blobs), 'blob')} {bytes_text(size)}"
    return f"{blobs}, index {bytes_text(facts.index_size)}"


def _cells(record: Record) -> tuple[str, ...]:
    return (
        shown(str(record.target)),
        record.blob.kind,
        bytes_text(record.blob.size),
        count_text(flops(record)),
        bytes_text(bytes_accessed(record)),
        peak_text(record),
        shown(", ".join(requirement_words(record.requires))) or "-",
    )


def _joined(avals: Sequence[str]) -> str:
    if len(avals) <= _SHORT:
        return ", ".join(avals)
    # The first arguments are usually weights, the last ones data.
    rest = len(avals) - _SHORT + 1
    return ", ".join((*avals[:3], f"… {rest} more …", *avals[3 - _SHORT + 1 :]))


CHOICE_HEADERS = ("executable", "target", "tuned", "instructions")


def choice_rows(facts: PackageFacts) -> list[tuple[str, ...]]:
    """Return a row for each executable with choices of its compiler, as on GPUs."""
    return [
        (shown(signature.label), shown(str(record.target)), *choices_of(record))
        for function in facts.functions
        for signature in function.signatures
        for record in signature.records
        if CHOICES in record.provenance
    ]


def choices_of(record: Record) -> tuple[str, str]:
    """Return which instructions of an executable were tuned, and how many there are by kind."""
    found = record.provenance.get(CHOICES)
    if not isinstance(found, dict):
        return "-", "-"
    kinds = {name: n for name, n in found.items() if isinstance(n, int)}
    counts = (f"{n} {name.replace('_', ' ')}" for name, n in sorted(kinds.items()))
    return shown(found.get("tuned")), shown(", ".join(counts) or "-")
