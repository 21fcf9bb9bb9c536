"""What a build needs and what its wheel needs, as requirements and tags that pip understands."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata

from packaging.version import Version

from aotbuild.build.manifest import Manifest
from aotbuild.build.plan import Plan
from aotbuild.spec.record import Record


def build_requirements(manifest: Manifest, project: Iterable[str]) -> list[str]:
    """Return what the build environment must have: jax as the manifest pins it, and the project's.

    The project's own dependencies are there because its functions are imported and traced.
    """
    return [_jax(manifest), *project]


def deferred_requirements(manifest: Manifest) -> list[str]:
    """Return the Requires-Dist of an editable install that compiles later, where it is."""
    return [f"aotbuild{_compatible(metadata.version('aotbuild'))}", _jax(manifest)]


def wheel_requirements(plan: Plan, records: Iterable[Record]) -> list[str]:
    """Return the Requires-Dist of a wheel: the exact jaxlib (and jax), a compatible aotbuild.

    Portable artifacts alone are compiled where they run, by this jaxlib or a later one.
    """
    toolchain = plan.environment.toolchains[0]
    operator = "==" if plan.native else ">="
    needed = [f"aotbuild{_compatible(plan.environment.aotbuild)}"]
    needed.append(f"jaxlib{operator}{toolchain.jaxlib}")
    if plan.manifest.runtime == "jax":
        needed.append(f"jax{operator}{toolchain.jax}")
    if any(record.calling.constants for record in records):
        needed.append("safetensors>=0.5")
    if any(record.target.is_portable for record in records):
        needed.append("flatbuffers>=24.3")
    return needed


def wheel_tag(plan: Plan) -> str:
    """Return the wheel's tag: any Python 3, no ABI, and jaxlib's own platform for native code."""
    return f"py3-none-{plan.environment.wheel_platform if plan.native else 'any'}"


def _jax(manifest: Manifest) -> str:
    pins = [f"jax=={request.jax}" for request in manifest.toolchains]
    return pins[0] if pins else "jax>=0.10.2"


def _compatible(version: str) -> str:
    """Return the range of versions that read what this one wrote (see docs/reference/format.md)."""
    release = Version(version).release
    major, minor = release[0], release[1] if len(release) > 1 else 0
    upper = f"{major}.{minor + 1}" if major == 0 else str(major + 1)
    return f">={major}.{minor},<{upper}"
