"""Facts of this host for people and reports; what cannot be found is None, with the reason."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

from aotbuild.platforms.base import known_names
from aotbuild.platforms.cpu import host as cpuinfo
from aotbuild.platforms.cpu.isa import LEVELS, best_level, missing_features
from aotbuild.runtime.host import Host, probe

_PREFIXES = ("AOTBUILD_", "JAX_", "XLA_")
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "LIBTPU_INIT_ARGS", "TPU_VISIBLE_CHIPS")
_PACKAGES = ("aotbuild", "jax", "jaxlib", "numpy", "flatbuffers", "libtpu")
_PLUGINS = ("jax-cuda", "jax-rocm")


@dataclass(frozen=True)
class Facts:
    """This machine, this environment, and what jax says of its devices.

    `next_isa` is the level above this CPU's and what it lacks for that. `hosts` has the default
    platform first; it is empty where jax cannot be used, and `problem` says why.
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
    architecture, features = cpuinfo.architecture(), cpuinfo.features()
    hosts, problem = _probe()
    return Facts(
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()}",
        architecture=architecture,
        isa=best_level(architecture, features),
        next_isa=next_level(architecture, features),
        features_known=bool(features),
        versions=_versions(),
        variables=_variables(os.environ),
        hosts=hosts,
        problem=problem,
    )


def next_level(architecture: str, features: frozenset[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return the lowest level that a CPU does not reach and the features it lacks for it."""
    for name, level in LEVELS.items():
        if level.architecture == architecture:
            missing = missing_features(name, architecture, features)
            if missing:
                return name, missing
    return None


def _probe() -> tuple[tuple[Host, ...], str | None]:
    try:
        default = probe()
        others = [probe(name) for name in known_names() if name != default.platform]
    except ModuleNotFoundError as err:
        return (), f"{err.name} is not installed"
    except Exception as err:  # noqa: BLE001 - plugins and drivers raise what they like
        return (), f"jax cannot be used: {type(err).__name__}: {err}"
    return (default, *(host for host in others if host.device_count)), None


def _assumed(facts: Facts) -> Host:
    return Host(
        platform="cpu",
        device_count=1,
        device_kinds=("cpu",),
        process_count=1,
        architecture=facts.architecture,
        features=cpuinfo.features(),
        jaxlib=facts.versions["jaxlib"] or "none",
        x64=False,
        lapack=facts.versions["jaxlib"] is not None,
    )


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {name: _version(name) for name in _PACKAGES}
    for distribution in metadata.distributions():
        name = str(distribution.metadata["Name"] or "").lower().replace("_", "-")
        if name.startswith(_PLUGINS):
            found[name] = distribution.version
    return found


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _variables(environment: Mapping[str, str]) -> dict[str, str]:
    names = [n for n in environment if n.startswith(_PREFIXES) or n in _VARIABLES]
    return {name: environment[name] for name in sorted(names)}
