"""Checks: a small function for each requirement, which returns a reason against a host, or None.

A record is not trusted to make sense: a value that cannot be compared is refused in words.
"""

from __future__ import annotations

from aotbuild.platforms.base import Host, checks, host_part
from aotbuild.spec.record import CustomCall, Record


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
    else:
        hint = checks(host.platform).device_hint.format(needed=needed)
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


def check_foreign(record: Record, host: Host) -> str | None:
    """Refuse a requirement that only another platform has; no build writes one."""
    stated = (("topology", record.requires.topology), *record.requires.lowest_versions)
    known = host_part(host.platform).fact_names
    foreign = [(name, value) for name, value in stated if value is not None and name not in known]
    return next((f"{name}: expected {value}, found none" for name, value in foreign), None)


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
