"""What `doctor` says: the facts of this host, and what of a package runs on it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata

from aotbuild.errors import AotbuildError
from aotbuild.format.dist_info import UNREADABLE, installed_version
from aotbuild.format.index import EDITABLE, Index
from aotbuild.format.layout import source_problem
from aotbuild.format.record import Record
from aotbuild.format.target import HOST
from aotbuild.platforms.base import Host, HostPart, host_part, known_names, machine, names
from aotbuild.runtime import companions
from aotbuild.runtime.api import locate, package_name
from aotbuild.runtime.checked_blobs import open_index
from aotbuild.runtime.companions import Companion
from aotbuild.runtime.compatibility import Verdict, by_signature
from aotbuild.runtime.package import EDITABLE_NOTE

_PREFIXES = ("AOTBUILD_", "JAX_", "XLA_")
_PACKAGES = ("aotbuild", "jax", "jaxlib", "numpy", "flatbuffers")


@dataclass(frozen=True)
class Facts:
    """This machine, this environment, and what XLA says of its devices.

    `next_isa` is the level above this CPU's and what it lacks for that. `hosts` has the default
    platform first; it is empty where neither backend can be used, and `problem` says why. Without
    jax, they are those of the numpy backend.
    """

    python: str
    system: str
    architecture: str
    isa: str | None
    next_isa: tuple[str, tuple[str, ...]] | None
    features_known: bool
    versions: Mapping[str, str | None]
    variables: Mapping[str, str]
    hosts: tuple[Host, ...]
    problem: str | None

    @property
    def host(self) -> Host:
        """The default platform; without jax, a CPU with what is known of it."""
        return self.hosts[0] if self.hosts else _assumed(self)


def gather() -> Facts:
    """Read everything. Imports jax where it is installed, and never fails for its sake."""
    here = machine()
    hosts, problem = _probe()
    return Facts(
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()}",
        architecture=here.architecture,
        isa=here.isa,
        next_isa=here.next_isa,
        features_known=bool(here.features),
        versions=_versions(),
        variables=_variables(os.environ),
        hosts=hosts,
        problem=problem,
    )


def _probe() -> tuple[tuple[Host, ...], str | None]:
    try:
        from aotbuild.runtime.jax.backend import probe  # imports jax

        default = probe()
        others = [probe(name) for name in known_names() if name != default.platform]
    except ModuleNotFoundError as err:
        # jax names no module where it misses jaxlib.
        return _probe_without_jax(f"{err.name or 'jaxlib'} is not installed")
    except Exception as err:  # noqa: BLE001 - plugins and drivers raise what they like
        return (), f"jax cannot be used: {type(err).__name__}: {err}"
    return (default, *(host for host in others if host.device_count)), None


def _probe_without_jax(problem: str) -> tuple[tuple[Host, ...], str | None]:
    """Return what the numpy backend sees, which needs jaxlib alone; `problem` if it cannot."""
    try:
        from aotbuild.runtime.numpy.backend import default_devices, probe

        return (probe(default_devices()),), None
    except Exception:  # noqa: BLE001 - plugins and drivers raise what they like
        return (), problem


def _assumed(facts: Facts) -> Host:
    return Host(
        platform=HOST,
        device_count=1,
        device_kinds=(HOST,),
        process_count=1,
        architecture=facts.architecture,
        features=machine().features,
        jaxlib=facts.versions["jaxlib"] or "none",
        x64=False,
    )


def _versions() -> dict[str, str | None]:
    parts = _host_parts()
    packages = (*_PACKAGES, *(name for part in parts for name in part.packages))
    prefixes = tuple(prefix for part in parts for prefix in part.package_prefixes)
    found = {name: installed_version(name) for name in packages}
    for distribution in metadata.distributions():
        with suppress(*UNREADABLE):
            name = str(distribution.metadata["Name"] or "").lower().replace("_", "-")
            if name.startswith(prefixes):
                found[name] = distribution.version
    return found


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    own = {name for part in _host_parts() for name in part.variables}
    found = [name for name in environment if name.startswith(_PREFIXES) or name in own]
    return {name: environment[name] for name in sorted(found)}


def _host_parts() -> list[HostPart]:
    return list(map(host_part, names("host")))


_REGISTERED = "custom calls are not judged: %s; import the package that registers them first"

# As in runtime.library; a test compares them.
SUMMARY = "no executable may run here"


@dataclass(frozen=True)
class SignatureDiagnosis:
    """One signature of one function: the verdicts on its records, best first."""

    function: str
    signature: str
    verdicts: tuple[Verdict, ...]

    @property
    def chosen(self) -> Record | None:
        """The record that a call would run, or None."""
        best = self.verdicts[0]
        return best.record if best.fits else None


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of a package, and its companions, installed or not.

    `notes` are on what no verdict says.
    """

    package: str | None
    fallback: str | None
    signatures: tuple[SignatureDiagnosis, ...]
    companions: tuple[Companion, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def unusable(self) -> tuple[SignatureDiagnosis, ...]:
        """The signatures without a usable executable."""
        return tuple(item for item in self.signatures if item.chosen is None)


def diagnose(place: str | os.PathLike[str], host: Host) -> Diagnosis:
    """Judge every record of a place, from its index and those of its companions.

    Custom calls are not judged: the program that calls the package registers them. Raises as
    `load`.
    """
    source = locate(place)
    try:
        base = open_index(source)
        if problem := source_problem(base.header, source.path):
            raise AotbuildError(problem)
        found = companions.find(source, base, package_name(place))
        _, index = companions.join(source, base, found)
        signatures = tuple(_signatures(index, replace(host, custom_calls=None)))
    finally:
        source.close()
    header = index.header
    package, fallback = header.get("package"), header.get("fallback")
    notes = [EDITABLE_NOTE % (package or place)] if header.get(EDITABLE) else []
    if targets := _custom_calls(signatures):
        notes.append(_REGISTERED % ", ".join(targets))
    return Diagnosis(package, fallback, signatures, found, tuple(notes))


def _custom_calls(signatures: Iterable[SignatureDiagnosis]) -> list[str]:
    """Return the targets of custom calls that a program registers by its imports, sorted."""
    records = [verdict.record for item in signatures for verdict in item.verdicts if verdict.fits]
    return sorted({target for record in records for target in record.requires.unprovided})


def _signatures(index: Index, host: Host) -> Iterator[SignatureDiagnosis]:
    for name in sorted(function.name for function in index.functions()):
        found = [
            SignatureDiagnosis(name, verdicts[0].record.label, verdicts)
            for verdicts in by_signature(index.records(name), host)
        ]
        yield from sorted(found, key=lambda item: item.signature)
