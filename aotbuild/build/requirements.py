"""What a build needs and what its wheel needs, as requirements and tags that pip understands."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata

from packaging.version import Version

from aotbuild.build.allowed import exactly
from aotbuild.build.manifest import Manifest
from aotbuild.build.plan import Plan
from aotbuild.build.toolchains.choose import may_be_running
from aotbuild.build.toolchains.wanted import plugin_needs, wanted_toolchains
from aotbuild.spec.record import Record

_LOWEST = "0.10.2"  # the oldest jax that this version was tried with


def build_requirements(manifest: Manifest, project: Iterable[str]) -> list[str]:
    """Return what the build environment must have: jax as the manifest pins it, and the project's.

    The project's own dependencies are there because its functions are imported and traced. Where uv
    makes the environments that do it, the build itself needs neither.
    """
    if not manifest.toolchains:
        # The running jax says which version it is, also where uv makes its environment.
        return [_jax(manifest), *([] if plugin_needs(manifest) else project)]
    (first, *others) = wanted_toolchains(manifest, project, None)
    return [] if others or not may_be_running(first, manifest) else [_jax(manifest), *project]


def deferred_requirements(manifest: Manifest) -> list[str]:
    """Return the Requires-Dist of an editable install that compiles later, where it is."""
    return [f"aotbuild{_compatible(metadata.version('aotbuild'))}", _jax(manifest)]


def wheel_requirements(plan: Plan, records: Iterable[Record]) -> list[str]:
    """Return the Requires-Dist of a wheel: the exact jaxlib (and jax), a compatible aotbuild.

    With several toolchains it is exactly their versions. Portable artifacts alone are compiled
    where they run, by the jaxlib that made them or a later one.
    """
    needed = [f"aotbuild{_compatible(plan.environment.aotbuild)}"]
    toolchains = list(dict.fromkeys(unit.toolchain for unit in plan.units))
    allowed = exactly if plan.native else _at_least
    needed.append(f"jaxlib{allowed([toolchain.jaxlib for toolchain in toolchains])}")
    if plan.manifest.runtime == "jax":
        needed.append(f"jax{allowed([toolchain.jax for toolchain in toolchains])}")
    if any(record.target.is_portable for record in records):
        needed.append("flatbuffers>=24.3")
    return needed


def wheel_tag(plan: Plan) -> str:
    """Return the wheel's tag: any Python 3, no ABI, and jaxlib's own platform for native code."""
    return f"py3-none-{plan.environment.wheel_platform if plan.native else 'any'}"


def _jax(manifest: Manifest) -> str:
    pins = [request.jax for request in manifest.toolchains]
    return f"jax{exactly(pins) if pins else f'>={_LOWEST}'}"


def _at_least(versions: Iterable[str]) -> str:
    return f">={min(versions, key=Version)}"


def _compatible(version: str) -> str:
    """Return the range of versions that read what this one wrote (see docs/reference/format.md)."""
    release = Version(version).release
    major, minor = release[0], release[1] if len(release) > 1 else 0
    upper = f"{major}.{minor + 1}" if major == 0 else str(major + 1)
    return f">={major}.{minor},<{upper}"
