"""Checks: a small function for each requirement, which returns a reason against a host, or None.

A record is not trusted to make sense: a value that cannot be compared is refused in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from aotbuild.platforms.cpu.isa import LEVELS, missing_features
from aotbuild.runtime.host import Host
from aotbuild.spec.record import CustomCall, Record

_VERSION = r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}"
# Patterns are compiled when they are needed: that of a CPU is never.
_TOPOLOGY = r"[1-9][0-9]{0,5}(x[1-9][0-9]{0,5}){0,2}"


def check_portable(record: Record, _: Host) -> str | None:
    if record.target.is_portable:
        return "portable: compiled at first use, and only with fallback: portable"
    return None


def check_platform(record: Record, host: Host) -> str | None:
    if host.platform in record.requires.platforms:
        return None
    return f"platform: expected {' or '.join(record.requires.platforms)}, found {host.platform}"


def check_processes(record: Record, host: Host) -> str | None:
    needed = record.requires.processes
    if needed < 1 or record.requires.devices % needed:
        return f"processes: {needed} cannot share {record.requires.devices} devices"
    # What was compiled for one process runs within each of several.
    if needed in (1, host.process_count):
        return None
    return f"processes: expected {needed}, found {host.process_count}"


def check_devices(record: Record, host: Host) -> str | None:
    needed, processes = record.requires.devices, record.requires.processes
    if processes > 1 and needed % processes == 0:
        share, everywhere = needed // processes, host.devices_everywhere or host.device_count
        if share <= host.device_count and needed <= everywhere:
            return None
        expected = f"{needed} ({share} in each of {processes} processes)"
        return f"devices: expected {expected}, found {everywhere} ({host.device_count} in this one)"
    if needed <= host.device_count:
        return None
    hint = ""
    if host.named:
        hint = ", which on(…) names"
    elif host.platform == "cpu":
        hint = f" (XLA_FLAGS=--xla_force_host_platform_device_count={needed} makes more)"
    return f"devices: expected {needed}, found {host.device_count}{hint}"


def check_arrays(record: Record, host: Host) -> str | None:
    """Without jax no array is on several devices, and none is a typed PRNG key."""
    if host.arrays == "jax":
        return None
    needs = 'needs load(…, arrays="jax")'
    if record.requires.devices > 1:
        return f"arrays: a function over {record.requires.devices} devices {needs}"
    avals = (*record.signature.leaves, *record.calling.outputs)
    is_keyed = any(aval.dtype.startswith("key<") for aval in avals)
    return f"arrays: a typed PRNG key {needs}, or jax.random.key_data" if is_keyed else None


def check_isa(record: Record, host: Host) -> str | None:
    isa = record.requires.isa
    if isa is None:
        return None
    if isa not in LEVELS:
        return f"isa: {isa} is unknown to this aotbuild"
    missing = missing_features(isa, host.architecture, host.features)
    if not missing:
        return None
    if not host.features and LEVELS[isa].architecture == host.architecture:
        return f"isa: {isa} needs {', '.join(missing)}; this system does not say what its CPU has"
    return f"isa: {isa} needs {', '.join(missing)}, which this CPU ({host.architecture}) lacks"


def check_features(record: Record, host: Host) -> str | None:
    missing = sorted(set(record.requires.features) - host.features)
    if host.platform != "cpu" or not missing:
        return None
    return f"features: the code uses {', '.join(missing)}, which this CPU lacks"


def check_kind(record: Record, host: Host) -> str | None:
    """Code for a TPU is for one kind of it; of a GPU the compute capability decides."""
    kinds = record.requires.device_kinds
    if host.platform in ("cpu", "cuda") or set(kinds) & set(host.device_kinds):
        return None
    if not kinds:
        return f"device kind: the record does not say for which {host.platform} it is"
    return f"device kind: expected {' or '.join(kinds)}, found {_or_none(host.device_kinds)}"


def check_capability(record: Record, host: Host) -> str | None:
    needed = record.requires.capability
    if host.platform != "cuda" or (needed is not None and needed == host.capability):
        return None
    found = f"{host.capability or 'none'} ({_or_none(host.device_kinds)})"
    expected = needed or "one, which the record does not name"
    return f"compute capability: expected {expected}, found {found}"


def check_topology(record: Record, host: Host) -> str | None:
    needed = record.requires.topology
    if needed is None:
        return None
    sizes, found = _sizes(needed), _sizes(host.topology or "")
    if sizes is None:
        return f"topology: {needed} is none that this aotbuild knows"
    if sizes == found:
        return None
    return f"topology: expected {needed}, found {_shown(host.topology, needed)}"


def check_plugin(record: Record, host: Host) -> str | None:
    plugin = record.requires.plugin
    if plugin is None or plugin in host.plugins:
        return None
    name, version = plugin
    found = dict(host.plugins)
    if name in found:
        return f"{name}: expected {version}, found {found[name]}"
    others = ", ".join(f"{other} {number}" for other, number in host.plugins)
    return f"{name}: expected {version}, found {others or 'none'}"


def check_cuda(record: Record, host: Host) -> str | None:
    return _too_old("cuda", record.requires.cuda, host.cuda)


def check_driver(record: Record, host: Host) -> str | None:
    """A driver serves no newer CUDA than its own."""
    return _too_old("cuda driver", record.requires.cuda, host.driver)


def check_cudnn(record: Record, host: Host) -> str | None:
    return _too_old("cudnn", record.requires.cudnn, host.cudnn)


def check_jaxlib(record: Record, host: Host) -> str | None:
    needed = record.requires.jaxlib
    if needed is None or needed == host.jaxlib:
        return None
    return f"jaxlib: expected {needed}, found {host.jaxlib}"


def check_x64(record: Record, host: Host) -> str | None:
    if record.requires.x64 == host.x64:
        return None
    return f"jax_enable_x64: expected {record.requires.x64}, found {host.x64}"


def check_custom_calls(record: Record, host: Host) -> str | None:
    missing = [c for c in record.requires.custom_calls if not _is_registered(c, host)]
    if not missing:
        return None
    names = ", ".join(f"{call.target} ({call.provider})" for call in missing)
    hint = "; import the package that registers them" if missing[0].provider == "user" else ""
    return f"custom calls not registered: {names}{hint}"


def _is_registered(call: CustomCall, host: Host) -> bool:
    if call.provider == "xla":
        return True
    if call.provider == "lapack":
        return host.lapack
    return call.target in host.custom_calls


def better_isa(record: Record, host: Host) -> str | None:
    isa = record.requires.isa
    return None if isa in (None, host.isa) else f"this CPU could use {host.isa}"


def better_kind(record: Record, host: Host) -> str | None:
    kinds = record.requires.device_kinds
    if not kinds or set(kinds) & set(host.device_kinds):
        return None
    return f"made for {' or '.join(kinds)}, this is {_or_none(host.device_kinds)}"


def better_slice(record: Record, host: Host) -> str | None:
    """Code for one TPU runs in any slice of its kind, but was made for those of its target."""
    _, _, wanted = record.target.detail.partition(":")
    if host.platform != "tpu" or _sizes(wanted) in (None, _sizes(host.topology or "")):
        return None
    return f"made for a slice of {wanted}, this is one of {_shown(host.topology, wanted)}"


def _too_old(what: str, needed: str | None, found: str | None) -> str | None:
    if needed is None:
        return None
    least = _version(needed)
    if least is None:
        return f"{what}: {needed} is no version that this aotbuild can compare"
    if found is None:
        return f"{what}: expected {needed} or newer, found none"
    known = _version(found)
    if known is None or known < least:
        return f"{what}: expected {needed} or newer, found {found}"
    return None


def _version(text: str) -> tuple[int, ...] | None:
    """Return a version without its trailing zeros: 13, 13.0 and 13.0.0 are one."""
    if not re.fullmatch(_VERSION, text):
        return None
    return tuple(int(part) for part in re.sub(r"(\.0+)+$", "", text).split("."))


def _sizes(topology: str) -> tuple[int, ...] | None:
    """Return the three sizes of a slice: `2x4` is `2x4x1`."""
    if not re.fullmatch(_TOPOLOGY, topology):
        return None
    sizes = tuple(map(int, topology.split("x")))
    return (*sizes, *[1] * (3 - len(sizes)))


def _shown(topology: str | None, like: str) -> str:
    """Return a host's slice with as many sizes as another text has: `2x4x1` as `2x4`."""
    if topology is None or like.count("x") == 2 or topology.count("x") != 2:
        return topology or "none"
    return topology.removesuffix("x1")


def _or_none(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
