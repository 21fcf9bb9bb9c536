"""What the keys of jax's cache depend on in this process, beside the program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import jax
from jaxlib.version import __version__ as jaxlib_version

from aotbuild.errors import AotbuildError
from aotbuild.jax_cache.export import Entry
from aotbuild.worker import private as jax_private

# The environment that is a part of every key.
_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
_IN_KEY = "jax_compilation_cache_include_metadata_in_key"


def facts(folder: str) -> dict[str, Any]:
    """Return what a program must have in common with this process to find the entries.

    `folder` is the path of the cache, as programs have it.
    """
    device = jax.devices()[0]
    return {
        "jax": jax.__version__,
        "jaxlib": jaxlib_version,
        "platform": device.platform,
        "platform_version": device.client.platform_version,
        "device_kind": device.device_kind,
        "devices": jax.device_count(),
        "topology": jax_private.topology_fingerprint(jax.devices()),
        "jax_compilation_cache_dir": folder,
        "compression": jax_private.cache_compression(),
        **{name: os.environ.get(name, "") for name in _VARIABLES},
    }


def refuse_settings() -> None:
    """Raise AotbuildError for a setting with which no key can be known."""
    if jax.config.values.get(_IN_KEY):
        msg = (
            f"{_IN_KEY} is on: then keys have the lines of the program that calls, which are not "
            "known here\nTurn it off, here and in the program."
        )
        raise AotbuildError(msg)


def notes(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return a line for each setting that the program needs and this process has not."""
    return tuple(dict.fromkeys(_notes(entries)))


def _notes(entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        for name, value in entry.settings.items() if entry.keys else ():
            here = jax.config.values.get(name)
            if here != value:
                yield (
                    f"{entry.signature} was traced with {name}={value!r}, which here is {here!r}: "
                    "the program must set it"
                )
