"""`aotbuild doctor`: what this host is, and what of a package runs on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from aotbuild.cli.command import argument, command, flag, whole_number
from aotbuild.cli.exit_codes import FAILED
from aotbuild.cli.output import Output, align, write_bytes
from aotbuild.format.target import HOST
from aotbuild.report.words import printable

if TYPE_CHECKING:
    from aotbuild.platforms.base import Host
    from aotbuild.verify.diagnosis import Diagnosis, Facts, SignatureDiagnosis

_SUMMARY_HEADERS = ("function", "target", "verdict", "signatures")
_HEADERS = ("signature", "target", "verdict")
_NAMED = 3  # signatures that a title names


@command(
    "Say what this host is, and what of a package runs on it.",
    argument("place", nargs="?", metavar="PLACE"),
    flag("--all", dest="every", help="A row for each executable, not for each function."),
    argument(
        "--describe-gpu",
        dest="number",
        type=whole_number(0),
        nargs="?",
        const=0,
        metavar="N",
        help="Print the preset of this machine's GPU number N (default 0) as YAML, and nothing "
        "else.",
    ),
)
def doctor(output: Output, place: str | None, every: bool, number: int | None) -> int | None:
    """Print the facts of this host that decide what runs; with PLACE, what of it runs here.

    PLACE is an installed package, an _aot folder, the folder around one, or a wheel. No blob is
    read, and nothing of PLACE is imported or run.
    """
    from aotbuild.verify.diagnosis import diagnose, gather

    if number is not None:
        _describe(output, number)
        return None
    facts = gather()
    output.document.update(host=_host_document(facts), place=place)
    output.text(align(list(_fact_rows(facts))))
    if place is None:
        return None
    diagnosis = diagnose(place, facts.host)
    output.document.update(_package_document(diagnosis, facts))
    _print_package(output, diagnosis, facts, every=every)
    return FAILED if diagnosis.unusable or facts.problem else None


def _describe(output: Output, number: int) -> None:
    from aotbuild.platforms.building import tuner

    facts, preset = tuner().describe(number)
    output.document.update(gpu=facts)
    if not output.as_json:
        write_bytes(preset.encode())


def _fact_rows(facts: Facts) -> Iterator[tuple[str, str]]:
    yield "python", f"{facts.python} on {facts.system}"
    for name, version in facts.versions.items():
        yield name, version or "not installed"
    yield HOST, facts.architecture
    unknown = "unknown: this system does not say what its CPU has"
    yield "isa level", facts.isa or ("none" if facts.features_known else unknown)
    if facts.next_isa and facts.features_known:
        name, missing = facts.next_isa
        yield "next level", f"{name} needs {', '.join(missing)}"
    if facts.problem:
        yield "devices", facts.problem
    for number, host in enumerate(facts.hosts):
        yield ("also" if number else "devices"), _devices(host)
    if facts.hosts and facts.host.arrays == "numpy":
        yield "arrays", 'numpy alone, as jax is not installed: load(…, arrays="numpy")'
    if facts.hosts:
        yield "processes", str(facts.host.process_count)
        yield "jax_enable_x64", str(facts.host.x64)
    for name, value in facts.variables.items():
        yield name, value


def _devices(host: Host) -> str:
    """Return the devices of a platform, and the other facts of it that decide what runs."""
    words = [f"{host.device_count} {host.platform} ({', '.join(host.device_kinds)})"]
    if host.devices_everywhere not in (None, host.device_count):
        words.append(f"{host.devices_everywhere} in all processes")
    words += [f"{name} {value}" for name, value in host.facts if value]
    words += [f"{name} {version}" for name, version in host.plugins]
    return ", ".join(words)


def _fact_names() -> list[str]:
    """Return the names of all facts, whatever the platform: a document has every key."""
    from aotbuild.platforms.base import host_part, names

    return [fact for name in names("host") for fact in host_part(name).fact_names]


def _platform_document(host: Host) -> dict[str, Any]:
    return {
        "platform": host.platform,
        "devices": host.device_count,
        "devices_everywhere": host.devices_everywhere,
        "kinds": list(host.device_kinds),
        **{name: host.fact(name) for name in _fact_names()},
        "plugins": dict(host.plugins),
    }


def _host_document(facts: Facts) -> dict[str, Any]:
    missing = facts.next_isa
    return {
        "python": facts.python,
        "system": facts.system,
        "architecture": facts.architecture,
        "isa": facts.isa,
        "next_isa": {"level": missing[0], "missing": list(missing[1])} if missing else None,
        "versions": dict(facts.versions),
        "variables": dict(facts.variables),
        "x64": facts.host.x64 if facts.hosts else None,
        "processes": facts.host.process_count if facts.hosts else None,
        "platforms": list(map(_platform_document, facts.hosts)),
        "problem": facts.problem,
    }


def _package_document(diagnosis: Diagnosis, facts: Facts) -> dict[str, Any]:
    return {
        "package": diagnosis.package,
        "fallback": diagnosis.fallback,
        "companions": [
            {"part": c.part, "distribution": c.distribution, "version": c.version}
            for c in diagnosis.companions
        ],
        "usable": not diagnosis.unusable and facts.problem is None,
        "signatures": [
            {
                "function": item.function,
                "signature": item.signature,
                "usable": item.chosen is not None,
                "records": [
                    {
                        "target": str(verdict.record.target),
                        "sha256": verdict.record.blob.sha256,
                        "verdict": verdict.grade.name,
                        "reasons": list(verdict.reasons),
                    }
                    for verdict in item.verdicts
                ],
            }
            for item in diagnosis.signatures
        ],
    }


def _rows(diagnosis: Diagnosis, *, every: bool) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """Return the headers and rows of the verdicts, each or counted by function and target."""
    cells = [
        (item, str(verdict.record.target), verdict.grade.name)
        for item in diagnosis.signatures
        for verdict in item.verdicts
    ]
    if every:
        return _HEADERS, [tuple(map(printable, (i.signature, *rest))) for i, *rest in cells]
    counts = Counter((item.function, *rest) for item, *rest in cells)
    return _SUMMARY_HEADERS, [(*map(printable, row), str(n)) for row, n in counts.items()]


def _unusable_blocks(diagnosis: Diagnosis, host: Host) -> Iterator[tuple[str, list[str]]]:
    """Yield why signatures have no executable here: those with the same reasons together."""
    from aotbuild.runtime.compatibility import refusal_trace
    from aotbuild.verify.diagnosis import SUMMARY

    traces: dict[tuple[str, ...], list[str]] = {}
    for item in diagnosis.unusable:
        trace = tuple(refusal_trace(item.verdicts, host))
        traces.setdefault(trace, []).append(item.signature)
    for trace, names in traces.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{', '.join(names[:_NAMED])}{more}: {SUMMARY}", list(trace)


def _fallbacks(diagnosis: Diagnosis, host: Host) -> list[str]:
    """Return the fallbacks that serve what has no executable here."""
    from aotbuild.runtime.compatibility import portable_reasons

    def has_portable(item: SignatureDiagnosis) -> bool:
        portable = (v.record for v in item.verdicts if v.record.target.is_portable)
        return any(not portable_reasons(record, host) for record in portable)

    if host.arrays != "jax":
        return []
    return [*(["portable"] if all(map(has_portable, diagnosis.unusable)) else []), "jit"]


def _print_package(output: Output, diagnosis: Diagnosis, facts: Facts, *, every: bool) -> None:
    from aotbuild.runtime.compatibility import CHANGE_HOST, refusal_trace, remedy

    usable = [v for item in diagnosis.signatures if item.chosen for v in item.verdicts]
    slower = [str(verdict) for verdict in usable if verdict.fits and verdict.reasons]
    why = [*dict.fromkeys(slower), *refusal_trace(usable, facts.host)]
    blocks = [("refused, or slower than another build would be:", why)] if why else []
    blocks += _unusable_blocks(diagnosis, facts.host)
    for companion in diagnosis.companions:
        state = companion.version or "not installed"
        output.text(printable(f"companion  {companion.distribution} {state}"))
    output.text()
    output.table(*_rows(diagnosis, every=every))
    for title, lines in blocks:
        output.text()
        output.text("\n".join([printable(title), *(f"  {printable(line)}" for line in lines)]))
    output.text()
    total, unusable = len(diagnosis.signatures), len(diagnosis.unusable)
    if total or not diagnosis.notes:
        output.text(f"{total - unusable} of {total} signatures have an executable that runs here")
    for note in diagnosis.notes:
        output.text(printable(note))
    if unusable:
        output.text(remedy(CHANGE_HOST, _fallbacks(diagnosis, facts.host)))
    if facts.problem:
        output.text(f"nothing can be called: {facts.problem}")
