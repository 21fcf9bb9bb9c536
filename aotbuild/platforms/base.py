"""The seam between the rest of aotbuild and each platform.

A folder beside this file is a platform. Its parts are modules with fixed names, each with a value
`PLATFORM` of the class named here. A part is imported on first use, so a process pays only for the
platforms that it meets.

| module        | class                  | who asks                               | may import jax |
|---------------|------------------------|----------------------------------------|----------------|
| `describe.py` | `building.Description` | the manifest, the plan, reports        | no             |
| `compile.py`  | `building.Compiler`    | a worker                               | yes            |
| `tune.py`     | `building.Tuner`       | `aotbuild tune`                        | no             |
| `host.py`     | `HostPart`             | the runtime: what is true of a host    | no             |
| `checks.py`   | `Checks`               | the runtime: which executables fit     | no             |
| `client.py`   | `Client`               | the runtime: clients, memory, copies   | no             |

Only `describe.py` and `compile.py` are required; tests/platforms/test_made_up.py adds a platform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from aotbuild import platforms
from aotbuild.format.target import HOST, PORTABLE, Target, check_targets_with

if TYPE_CHECKING:
    from aotbuild.format.record import Record

Facts: TypeAlias = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Host:
    """One platform of this process and its devices of one kind, as requirements see them.

    `device_count` counts the devices of this process, `devices_everywhere` those of all processes
    (None: there is only this one); `named` says that a caller named them with `on`.
    `architecture` and `features` are of the CPU. `arrays` is the backend: numpy's arrays are on one
    device, and none is a typed PRNG key. `custom_calls` are the targets registered for the
    platform, None where XLA does not list them: a PJRT plugin keeps its own. `plugins` are the
    distributions, with versions, that the platform may come from. `facts` are what the platform's
    own checks read, such as a compute capability; None is a fact that cannot be found.
    """

    platform: str
    device_count: int
    device_kinds: tuple[str, ...]
    process_count: int
    architecture: str
    features: frozenset[str]
    jaxlib: str
    x64: bool
    custom_calls: frozenset[str] | None = None
    devices_everywhere: int | None = None
    plugins: tuple[tuple[str, str], ...] = ()
    named: bool = False
    arrays: str = "jax"
    facts: Facts = ()

    def fact(self, name: str) -> str | None:
        """Return a fact of the platform; None if it cannot be found, or has no such fact."""
        return dict(self.facts).get(name)


Check: TypeAlias = Callable[["Record", Host], str | None]


def check_kind(record: Record, host: Host) -> str | None:
    """Refuse an executable that was made for another kind of device."""
    kinds = record.requires.device_kinds
    if set(kinds) & set(host.device_kinds):
        return None
    if not kinds:
        return f"device kind: the record does not say for which {host.platform} it is"
    return f"device kind: expected {' or '.join(kinds)}, found {or_none(host.device_kinds)}"


def check_plugin(record: Record, host: Host) -> str | None:
    """Refuse an executable of another version of the platform's plugin."""
    plugin = record.requires.plugin
    if plugin is None or plugin in host.plugins:
        return None
    name, version = plugin
    found = dict(host.plugins)
    if name in found:
        return f"{name}: expected {version}, found {found[name]}"
    others = ", ".join(f"{other} {number}" for other, number in host.plugins)
    return f"{name}: expected {version}, found {others or 'none'}"


def or_none(names: Iterable[str]) -> str:
    """Return names joined for a message, or `none`."""
    return ", ".join(names) or "none"


class Checks:
    """Decides which executables of a platform fit a host, and which fit better.

    Each check returns a reason or None. `required` run in order, after the checks of devices and
    processes and before those of jaxlib; a record with a reason is refused. `better` say why
    another executable could be faster.
    `device_hint` is a remedy for too few devices, with `{needed}` in it.
    """

    required: tuple[Check, ...] = (check_kind, check_plugin)
    better: tuple[Check, ...] = ()
    device_hint = ""

    def check_target(self, target: Target) -> None:
        """Raise ValueError for a target whose detail the platform does not know."""

    def rank(self, detail: str) -> int:
        """Return the rank of a detail among others, from low to high; -1 if it has none."""
        return -1

    def preference(self, record: Record) -> tuple[int, ...]:
        """Return the sort key of executables that fit equally well; the lowest goes first."""
        return (0, 0)


class Kernels(NamedTuple):
    """Custom calls of one module of jaxlib or of a platform's plugin, all of XLA's typed FFI.

    `handlers` are what XLA registers, by the names of targets; None for one that the plugin has
    registered itself. `initialize` has to be called before an executable that calls one is loaded.
    """

    handlers: Mapping[str, Any]
    initialize: Callable[[], Any] | None = None

    @classmethod
    def of(cls, module: Any) -> Kernels:
        """Return those of a module with `registrations()`, and perhaps `initialize()`."""
        return cls(module.registrations(), getattr(module, "initialize", None))


class HostPart:
    """Finds the facts of a host's devices of one platform.

    `plugins` are the distributions that the platform's PJRT plugin may come from, `variables` the
    environment variables that decide which devices it sees. `aotbuild doctor` shows the variables
    and the versions of `packages` and of distributions with `package_prefixes`. `xla_name` is XLA's
    name of the platform where Python registers native functions. `fact_names` are the names of all
    facts. `order` is how messages name the order of `in_order`, and `order_remedy` what users do
    about devices in another one.
    """

    plugins: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    package_prefixes: tuple[str, ...] = ()
    xla_name: str | None = None
    fact_names: tuple[str, ...] = ("capability",)
    order = "another order"
    order_remedy = ""

    def installed(self) -> tuple[tuple[str, str], ...]:
        """Return the installed ones of `plugins`, with their versions."""
        return _versions(self.plugins)

    def kernels(self) -> Iterator[Kernels]:
        """Yield the custom calls that jax registers for the platform, module by module.

        Importing one of the modules takes milliseconds, so they are imported one at a time.
        """
        return iter(())

    def name_of(self, device: Any) -> str | None:
        """Return the platform of a device that jaxlib names differently, such as `gpu`."""
        return None

    def facts(self, device: Any) -> Facts:
        """Return the facts of a device and its client, which hold for all devices of its kind."""
        capability = getattr(device, "compute_capability", None)
        return (("capability", capability),) if capability is not None else ()

    def in_order(self, devices: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return devices in the order in which executables take them."""
        return devices


class Client:
    """Knows a platform's clients, and makes one for the numpy backend.

    `aliases` are jax's other names of the platform.
    """

    aliases: tuple[str, ...] = ()

    def is_default(self) -> bool:
        """Return whether jax uses this platform by default."""
        return False

    def make(self, private: Any) -> Any:
        """Return a client; `private` is the backend's module of private names of jaxlib.

        Raises AotbuildError if there is none.
        """
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """Return what a client of a process that only calls executables is made with.

        These are PJRT options that differ from jax's, and that no variable decides.
        """
        return {}

    def shortage(self, error: str, ordinal: int) -> str | None:
        """Return a message for an error of a device without free memory; None for another error."""
        return None

    def copy(self, pointer: int, size: int, ordinal: int) -> Any:
        """Return bytes in a device's memory as a numpy array of bytes."""
        raise NotImplementedError


@dataclass(frozen=True)
class Machine:
    """Facts of every host, whatever its devices are: those of the CPU that runs Python.

    `features` are those that a program can use, by their /proc/cpuinfo names; `isa` is the highest
    ISA level that they satisfy, and `next_isa` the one above, with the missing features.
    """

    architecture: str
    features: frozenset[str]
    isa: str | None
    next_isa: tuple[str, tuple[str, ...]] | None = None

    def to_json(self) -> list[Any]:
        """Return the facts that decide the numeric results of a function here, as JSON."""
        return [self.architecture, sorted(self.features)]


def machine() -> Machine:
    """Return the facts of this machine."""
    found: Machine = find_part(HOST, "host").machine()
    return found


def checks(name: str) -> Checks:
    """Return the checks of a platform, or the default checks."""
    return find_part(name, "checks") or Checks()


def host_part(name: str) -> HostPart:
    """Return the part that finds facts of a platform's devices."""
    return find_part(name, "host") or HostPart()


def client_part(name: str) -> Client:
    """Return the part that knows a platform's clients."""
    return find_part(name, "client") or Client()


def plugged() -> tuple[str, ...]:
    """Return the platforms whose client comes from a plugin of jax, if any is installed."""
    return names("client") if find_spec("jax_plugins") else ()


def platform_of(device: Any) -> str:
    """Return the platform of a jaxlib device as targets name it."""
    name = str(device.platform)
    if find_part(name, "host") is None:
        named = (host_part(known).name_of(device) for known in names("host"))
        name = next(filter(None, named), name)
    return name


@cache
def names(part: str = "describe") -> tuple[str, ...]:
    """Return the platforms that have a part, sorted; the portable format comes last."""
    import pkgutil  # few processes ask; it also knows what is inside of a zip file or a bundle

    known = (module.name for module in pkgutil.iter_modules(platforms.__path__) if module.ispkg)
    found = [name for name in known if find_spec(f"{platforms.__name__}.{name}.{part}")]
    return tuple(sorted(found, key=lambda name: (name == PORTABLE, name)))


def hook_dirs() -> list[str]:
    """Return the folder of the hook for PyInstaller, which finds this by an entry point."""
    return [str(Path(__file__).parent)]


def known_names() -> tuple[str, ...]:
    """Return all platforms of devices, including those that only run portable artifacts."""
    lowered: Sequence[str] = find_part(PORTABLE, "checks").lowered_for
    return tuple(sorted({*names(), *lowered} - {PORTABLE}))


def check_target(target: Target) -> None:
    """Raise ValueError for an unknown platform, or a detail that the platform does not know."""
    part = find_part(target.platform, "checks")
    if part is None and target.platform not in known_names():
        msg = f"{target}: unknown platform {target.platform!r}"
        raise ValueError(msg)
    if part is not None:
        part.check_target(target)


@cache
def _versions(distributions: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    if not distributions:
        return ()
    from aotbuild.format.dist_info import installed_version  # 10 ms that only plugins cost

    found = ((name, installed_version(name)) for name in distributions)
    return tuple((name, version) for name, version in found if version is not None)


@cache
def find_part(name: str, part: str) -> Any:
    """Return a part of a platform, or None; any text is accepted as a name."""
    if not name.isidentifier():
        return None
    module = f"{__package__}.{name}.{part}"
    try:
        return import_module(module).PLATFORM
    except ModuleNotFoundError as err:
        if err.name not in (module, module.rpartition(".")[0]):
            raise
        return None


check_targets_with(check_target)
