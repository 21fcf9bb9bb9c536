"""What a process imports for a job, and jax's settings.

Settings are the manifest's and those that imports change: what an import changes holds for the rest
of the process, as in a program of the user's. Tracing changes none. The project's modules are made
from their sources.

What belongs to a package must not depend on what the store has: what a job imports and traces with
counts. Calling a function with golden or padded inputs, which the store may spare, does not.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import CodeType
from typing import Any

import jax
import numpy as np

from aotbuild.errors import TraceRefused
from aotbuild.format.values import cut
from aotbuild.format.words import did_you_mean

_OURS = ("aotbuild", "hatch_aotbuild", "__main__")
_INSTALLED = ("/site-packages/", "/dist-packages/")
_STDLIB = tuple(
    {os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")}
)


def import_own_sources() -> None:
    """Compile the project's modules from here on; those of libraries are taken as they are.

    Python takes a module's bytecode (`__pycache__`) for that of its source if time, in seconds, and
    size are equal. Archives, containers and checkouts can give an edited file the time of the one
    before. The wheel has the source, so that is what its executables must be of.
    """
    loader: Any = importlib.machinery.SourceFileLoader
    plain = loader.get_code

    def get_code(self: Any, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        if not is_own(fullname, path):
            found: CodeType | None = plain(self, fullname)
            return found
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code

    loader.get_code = get_code


def is_own(name: str, file: Any) -> bool:
    """Return whether a module is the user's own: neither installed nor of the standard library."""
    is_ours = name.partition(".")[0] in _OURS
    return isinstance(file, str) and not is_ours and not _is_installed(file)


@cache
def _is_installed(file: str) -> bool:
    places = (file, os.path.realpath(file))
    return any(p.startswith(_STDLIB) or any(part in p for part in _INSTALLED) for p in places)


# Changes of these are undone: they do not change an executable (logging, caches, the backend).
_HARMLESS = (
    "jax_compilation_cache",
    "jax_compiler_detailed_logging",
    "jax_debug_log",
    "jax_default_device",
    "jax_dump_ir",
    "jax_enable_compilation_cache",
    "jax_explain_cache_misses",
    "jax_log",
    "jax_persistent_cache",
    "jax_platform",
    "jax_raise_persistent_cache_errors",
    "jax_traceback_filtering",
    "jax_transfer_guard",
    # Those that the worker decides: no paths in the bytes, and `constants:` of the manifest.
    "jax_hlo_source_file_canonicalization_regex",
    "jax_traceback_in_locations_limit",
    "jax_use_simplified_jaxpr_constants",
)

# Options that change dtypes, random bits or precision; the record keeps their values.
_PINNED = (
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_enable_x64",
    "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion",
    "jax_threefry_partitionable",
)


def apply_config(config: Iterable[tuple[str, Any]]) -> None:
    """Set the manifest's options of jax; TraceRefused names one that jax refuses."""
    for name, value in config:
        known = dict(jax.config.values)
        if name not in known:
            msg = f"config: jax {jax.__version__} has no option {name!r}{did_you_mean(name, known)}"
            raise TraceRefused(msg)
        if isinstance(known[name], bool) and not isinstance(value, bool):
            msg = f"config: {name}: expected true or false, found {value!r}"
            raise TraceRefused(msg)
        try:
            jax.config.update(name, value)
        except (ValueError, TypeError, RuntimeError) as err:
            msg = f"config: {name}: jax refuses {value!r}: {err}"
            raise TraceRefused(msg) from err


_PLAIN = (bool, int, float, str, type(None))


@dataclass
class Imports:
    """The modules that are imported for a job, and the settings of jax that each one changed.

    `config` is the manifest's, and `flags` has what each module added to XLA_FLAGS. `drew` are
    those that drew from numpy's generator, as weights do. Libraries draw names from Python's.
    """

    config: dict[str, Any]
    changed: dict[str, dict[str, Any]] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    drew: list[str] = field(default_factory=list)

    def adopt(self, references: Iterable[str], role: str) -> None:
        """Import the modules of some references, and keep the settings that they change.

        A module that cannot be imported is reported where it is used. TraceRefused begins with
        `role`, and says what the manifest and a module say otherwise.
        """
        variables = dict(os.environ)
        for module in _named_modules(references):
            if module not in sys.modules:
                self._import(module)
        _check_variables(variables, role)
        lines = [
            f"{role}: the manifest says config: {{{name}: {_yaml(self.config[name])}}}, and "
            f"importing {module} sets it to {_yaml(value)}\n"
            for name, (module, value) in self._settings().items()
            if self.config.get(name, value) != value
        ]
        if lines:
            raise TraceRefused("".join(lines) + "Take it out of one of them.")

    def _import(self, module: str) -> None:
        before, flags = dict(jax.config.values), os.environ.get("XLA_FLAGS", "")
        state = _numpy_state()
        with contextlib.suppress(BaseException):
            importlib.import_module(module)
        if _numpy_state() != state:
            self.drew.append(module)
        if os.environ.get("XLA_FLAGS", "") != flags:
            self.flags[module] = os.environ.get("XLA_FLAGS", "")
        changed = {name: jax.config.values[name] for name in _changed(before)}
        _restore({n: value for n, value in before.items() if n not in changed})
        if changed:
            self.changed[module] = changed

    def notes(self) -> tuple[str, ...]:
        """Return a note for each setting that an import changed."""
        notes = [
            f"importing {module} set {name}={_yaml(value)}: compiled with it"
            for name, (module, value) in self._settings().items()
        ]
        notes += [
            f"importing {module} sets XLA_FLAGS to {cut(flags, 200)}: compiled without them "
            "(mesh: says how many devices there are)"
            for module, flags in self.flags.items()
        ]
        notes += [
            f"importing {module} drew random numbers from numpy.random, which has one seed in all "
            "builds: a program that imports it draws others"
            for module in self.drew
        ]
        return tuple(notes)

    def traced_with(self) -> dict[str, Any]:
        """Return the options of jax that decide a trace, those of the manifest and of imports."""
        adopted = {
            name: value if isinstance(value, _PLAIN) else str(value)
            for name, (_, value) in self._settings().items()
        }
        return traced_with({**self.config, **adopted}.items())

    def _settings(self) -> dict[str, tuple[str, Any]]:
        """Return the module that changed a setting last, and its value."""
        return {
            name: (module, value)
            for module, changed in self.changed.items()
            for name, value in changed.items()
        }


def _numpy_state() -> Any:
    """Return the state of numpy's generator, as values that can be compared."""
    _, keys, *rest = np.random.get_state()
    return np.asarray(keys).tobytes(), rest


def _check_variables(before: Mapping[str, str], role: str) -> None:
    """Refuse variables that a module has set for jax: here jax was imported before.

    In a program, jax reads them when the module imports it.
    """
    for name, text in os.environ.items():
        option = name.lower()
        if before.get(name) == text or option.startswith(_HARMLESS):
            continue
        value = jax.config.values.get(option, text)
        is_true = text.lower() in ("y", "yes", "t", "true", "on", "1")
        if value != is_true if isinstance(value, bool) else str(value) != text:
            msg = (
                f"{role}: importing its modules sets {name}={text}, which this build has not read: "
                f"jax was imported before\nSet {option} with jax.config.update in the module, or "
                "under config: in the manifest."
            )
            raise TraceRefused(msg)


def new_modules(references: Iterable[str]) -> tuple[str, ...]:
    """Return the modules that some references name and that are not imported yet."""
    named = dict.fromkeys(reference.partition(":")[0] for reference in references)
    return tuple(name for name in named if name not in sys.modules)


def _named_modules(references: Iterable[str]) -> Iterator[str]:
    """Yield the modules of `module:qualname`s, each after the packages that it is in."""
    for reference in references:
        names = reference.partition(":")[0].split(".")
        yield from (".".join(names[: end + 1]) for end in range(len(names)))


def traced_with(config: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the options of jax that decide a trace, and those of the manifest and of imports."""
    return {**{name: jax.config.values[name] for name in _PINNED}, **dict(config)}


@contextlib.contextmanager
def unchanged_config(role: str) -> Iterator[None]:
    """Undo every change of jax's settings in the block; TraceRefused if one decides a trace."""
    before = dict(jax.config.values)
    try:
        yield
        changed = _changed(before)
        if changed:
            now = jax.config.values
            changes = ", ".join(f"{n} from {before[n]!r} to {now[n]!r}" for n in changed)
            msg = (
                f"{role}: tracing or calling it changed jax's settings: {changes}\n"
                "Set them at the top of the module that `call:` names, which may import another "
                "that does, or in the manifest, for example "
                f"config: {{{changed[0]}: {_yaml(now[changed[0]])}}}"
            )
            raise TraceRefused(msg)
    finally:
        _restore(before)


def _restore(settings: dict[str, Any]) -> None:
    for name, value in settings.items():
        if jax.config.values[name] != value:
            jax.config.update(name, value)


def _changed(before: dict[str, Any]) -> list[str]:
    now = jax.config.values
    return [n for n in before if now[n] != before[n] and not n.startswith(_HARMLESS)]


def _yaml(value: Any) -> str:
    return {"True": "true", "False": "false", "None": "null"}.get(repr(value), str(value))
