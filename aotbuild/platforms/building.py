"""What a build asks of a platform: its targets, and how they are compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from aotbuild.format.target import MAX_DEVICES, Target
from aotbuild.platforms.base import find_part, names

if TYPE_CHECKING:
    from pathlib import Path

    from aotbuild.errors import Problem
    from aotbuild.format.record import Record
    from aotbuild.platforms.options import Model

_MIB = 1 << 20
# Texts in the errors of every platform's compiler, and what to do. Protobuf ends at 2 GiB.
_HINTS = {
    "Failed to serialize": (
        "An executable has at most 2 GiB, with all arrays that the function closes over. "
        "`constants: hoist` stores those beside it."
    )
}


@dataclass(frozen=True)
class Hardware:
    """The devices of a target; all fields are empty if the target's name says everything.

    `kind` is the `device_kind` of jax. `memory` is in bytes, what programs may use of one device.
    `capability` is the compute capability with its suffix, as `9.0a`. `description` is for the
    platform's compiler: names and values, in its own words. `tuning` is the text of the tuning
    results of real devices, if there are any.
    """

    kind: str = ""
    memory: int | None = None
    capability: str | None = None
    description: tuple[tuple[str, Any], ...] = ()
    tuning: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return {**vars(self), "description": [list(pair) for pair in self.description]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Hardware:
        """Read what `to_json` wrote."""
        description = tuple((name, _frozen(value)) for name, value in data["description"])
        return cls(**{**data, "description": description})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class Request:
    """One item of a manifest's `targets:`.

    `options` is the platform's model of it; `files` is what `Description.read` returned for the
    files that it names.
    """

    platform: str
    options: Any
    files: Any = None

    @property
    def description(self) -> Description:
        """The description of the platform."""
        return description(self.platform)


@dataclass(frozen=True)
class Process:
    """How a worker process that compiles for a platform is run.

    `own_folder`: it starts in a folder that no other process uses. `one_job`: it ends after one
    job. `job_per_hardware` and `per_hardware`: a job, or the whole process, compiles for one
    hardware only. `variables` are set in its environment. `memory` is its size in bytes before it
    compiles.
    """

    own_folder: bool = False
    one_job: bool = False
    job_per_hardware: bool = False
    per_hardware: bool = False
    variables: tuple[tuple[str, str], ...] = ()
    memory: int = 300 * _MIB


class Versions(Protocol):
    """The versions of a toolchain; `plugins` are distributions beside jaxlib."""

    @property
    def jax(self) -> str: ...
    @property
    def jaxlib(self) -> str: ...
    @property
    def plugins(self) -> tuple[tuple[str, str], ...]: ...


class BuildMachine(Protocol):
    """The machine that builds: its system as in `sys.platform`, and its CPU.

    `isa` is the best ISA level that the CPU has.
    """

    @property
    def system(self) -> str: ...
    @property
    def architecture(self) -> str: ...
    @property
    def isa(self) -> str | None: ...


class TargetItem(Protocol):
    """An item of `targets:` in the YAML; files are named relative to `folder`, the manifest's."""

    folder: Path

    def report(self, message: str, *steps: str | int) -> None:
        """Report a problem at a path below the item, as far as the manifest has it."""

    def extend(self, problems: Iterable[Problem]) -> None:
        """Report the problems of another file."""

    def read_model(self, file: Path, model: type[Any], expected: str) -> Any:
        """Read a YAML file as a model; ManifestError has every problem of it."""


class Description:
    """Describes a platform's options in a manifest, and its targets. Imports no jax.

    `options` is the pydantic model of an item of `targets:`, `summary` its line in the JSON schema,
    `example` the minimal options of an item, None if its name is enough.
    `plugins` are the distributions beside jaxlib that compile, or that those call.
    `worker_variables` are set in every worker, whatever it compiles for. No worker inherits
    variables with `device_prefixes` and `option_prefixes`: they choose devices, or the compiler's
    options. `hints` are texts in a compiler's errors and what to do about each. `aliases`
    are what people call the platform, too: an error suggests its name. `most_devices` is how many a
    call may have.
    """

    options: type[Model]
    summary: str
    example: str | None = None
    process = Process()
    plugins: tuple[str, ...] = ()
    worker_variables: tuple[tuple[str, str], ...] = ()
    device_prefixes: tuple[str, ...] = ()
    option_prefixes: tuple[str, ...] = ()
    hints: Mapping[str, str] = MappingProxyType({})
    most_devices: int = MAX_DEVICES
    aliases: tuple[str, ...] = ()

    def read(self, options: Any, item: TargetItem) -> Any:
        """Read the files that the options name; report problems at `item`."""

    def parts(self, request: Request) -> Sequence[str]:
        """Return the name of each thing that a request asks for, such as `x86-64-v3`."""
        raise NotImplementedError

    def device_counts(self, request: Request) -> Sequence[int | None]:
        """Return the device counts of a request; None means any number."""
        return [request.options.devices]

    def mesh_remedy(self, devices: int) -> str:
        """Return the remedy if no target has as many devices as a function's mesh."""
        return f"add a target with devices: {str(devices)[:20]}"

    def is_spread(self, _: Request) -> bool:
        """Return whether the devices may belong to more than one process."""
        return False

    def packages(self, jax: str, request: Request | None = None) -> Sequence[str]:
        """Return the requirements that compile a request beside that jax."""
        return ()

    def problems(
        self, request: Request, versions: Versions, machine: BuildMachine
    ) -> Iterator[str]:
        """Yield why a toolchain on this machine cannot build a request."""
        return iter(())

    def notes(self, request: Request, machine: BuildMachine) -> Iterator[str]:
        """Yield what a user should know of a request before anything is compiled."""
        return iter(())

    def expand(
        self, request: Request, devices: int, machine: BuildMachine
    ) -> Iterator[tuple[Target, Hardware]]:
        """Yield the targets of a request for a function whose mesh has so many devices."""
        raise NotImplementedError

    def cap(self, target: Target, versions: Versions) -> str | None:
        """Return the cap of a process that compiles a target, if it needs one."""
        return None

    def cap_flags(self, cap: str) -> Sequence[str]:
        """Return the flags of XLA that cap a process."""
        return ()

    def details(self, hardware: Hardware) -> Mapping[str, Any]:
        """Return what a plan shows of a target beside its name, by names of options."""
        return {}

    def variables(self, hardware: Hardware) -> Mapping[str, str]:
        """Return the variables of a process that compiles for one hardware only."""
        return {}

    def distribution_of(self, plugin: str) -> tuple[str, str | None]:
        """Return what to install for a plugin that a record requires, in the same version.

        And the extra of that distribution which brings the libraries that the plugin loads.
        """
        return plugin, None

    def hint(self, error: str) -> str:
        """Return the remedy for the text of an error on a line of its own, or an empty text."""
        known = {**self.hints, **_HINTS}
        return next((f"\n{remedy}" for sign, remedy in known.items() if sign in error), "")


# Compiles with options of XLA; TraceRefused says why it cannot.
Attempt: TypeAlias = Callable[[Mapping[str, Any]], Any]


class Compiler:
    """How a worker compiles for a platform."""

    def start(self) -> None:
        """Prepare the process, and import what is needed later, before the user's code runs."""

    def devices(self, target: Target, hardware: Hardware, private: Any) -> Sequence[Any]:
        """Return jax's devices of a target, in the order of the executable; they may be absent.

        `private` is the worker's module of private jax names. Raises TraceRefused if something
        needed to compile for them is missing.
        """
        raise NotImplementedError

    def compile(
        self, attempt: Attempt, target: Target, hardware: Hardware, options: Mapping[str, Any]
    ) -> tuple[Any, str, dict[str, Any]]:
        """Compile with `options` of the manifest, which win over the platform's own.

        Return the `jax.stages.Compiled`, its optimized HLO as text, and what the provenance says
        of the compiler's choices, as JSON; `note` of it is for the user. Raises TraceRefused.
        """
        compiled = attempt(options)
        return compiled, compiled.as_text() or "", {}

    def requirements(
        self, target: Target, hardware: Hardware, data: bytes, hlo: str
    ) -> dict[str, Any]:
        """Return the platform's fields of `Requirements`, read from the executable, as JSON.

        Raises TraceRefused if the bytes are not for the target.
        """
        return {}

    def provenance(self, hardware: Hardware) -> dict[str, Any]:
        """Return the provenance of the compilers; `compilers` of it is in the store's key."""
        return {}

    def deciding_facts(self, hardware: Hardware) -> list[Any]:
        """Return the facts of this machine that decide the bytes of an executable, as JSON."""
        return []

    def obstacle(self, target: Target) -> str | None:
        """Return why this machine cannot run executables of a target; None if it can."""
        return f"{target} is for other devices"

    def is_stored(self, hardware: Hardware) -> bool:
        """Return whether the store may keep what is compiled for this hardware."""
        return True

    def asks_for_device(self, error: Exception) -> bool:
        """Return whether an error means that a kernel asks for its device while it is traced."""
        return False

    def searchable(self, data: bytes) -> bytes:
        """Return the bytes of an executable in a form that can be searched for texts."""
        return data

    def notes(self, record: Record) -> list[str]:
        """Return notes for the user about an executable."""
        return []


@dataclass(frozen=True)
class LocalDevices:
    """Devices of this machine: a request for them, how many there are, and their kind."""

    request: Request
    count: int
    kind: str


class Measured(Protocol):
    """Tuning results; their text, as `str` gives it, is what a file of them holds."""

    @property
    def keys(self) -> frozenset[Any]:
        """What each result is looked up by."""


class Tuner:
    """Tunes a compiler on this machine's devices, for builds on machines without them."""

    def devices(self) -> LocalDevices:
        """Return this machine's devices; NoGpu says why there are none."""
        raise NotImplementedError

    def install(self, jax: str) -> str:
        """Return the requirement to install for a version of jax."""
        raise NotImplementedError

    def into(self, hardware: Hardware, file: Path) -> Hardware:
        """Return hardware whose compiler writes its choices into a file."""
        raise NotImplementedError

    def read(self, file: Path, kind: str, jax: str) -> Measured:
        """Return what a compiler wrote into the file of `into`, on that kind of device."""
        raise NotImplementedError

    def parse(self, text: str) -> Measured:
        """Return the results in the text of an earlier file; ValueError if it is malformed."""
        raise NotImplementedError

    def join(self, results: Iterable[Any]) -> Measured:
        """Return all of these results; of two for one key, the last one."""
        raise NotImplementedError

    def describe(self, number: int) -> tuple[dict[str, Any], str]:
        """Return the facts of a device by its number, and the text of a preset with them."""
        raise NotImplementedError


def description(name: str) -> Description:
    """Return the description of a platform; KeyError if there is none."""
    found = find_part(name, "describe")
    if found is None:
        raise KeyError(name)
    return found  # type: ignore[no-any-return]


def descriptions() -> tuple[Description, ...]:
    """Return the descriptions of all platforms, in the order of `names`."""
    return tuple(map(description, names()))


def aliases() -> dict[str, str]:
    """Return the platform for each name that people call one by, too."""
    return {alias: name for name in names() for alias in description(name).aliases}


def compiler(name: str) -> Compiler:
    """Return the compiler part of a platform. Imports jax."""
    return find_part(name, "compile") or Compiler()


def tuner() -> Tuner:
    """Return the tuner of the first platform that has one."""
    return find_part(names("tune")[0], "tune")  # type: ignore[no-any-return]
