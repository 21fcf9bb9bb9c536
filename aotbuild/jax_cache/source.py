"""The source of a record's function, and the arguments of its signature in the user's own trees."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from aotbuild.jax_cache.arguments import NotExportable, arguments_of
from aotbuild.runtime.imports import import_named
from aotbuild.spec.aval import Aval
from aotbuild.spec.identity import named
from aotbuild.spec.imports import Imports
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function
from aotbuild.spec.values import decode
from aotbuild.worker import private as jax_private
from aotbuild.worker.function import Binding, call_arguments

# Where it names no file, the bytes of a module are the same on all machines: as the build sets it.
_LOCATIONS = "jax_traceback_in_locations_limit"


@dataclass(frozen=True)
class Given:
    """The arguments of a call: positional ones and others, of `ShapeDtypeStruct`s and statics."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True)
class Source:
    """A record, its function as the user's code has it, and the devices that it runs on.

    `mesh` is over these devices; None for one device. `treedefs` are those of the arguments, in the
    order of the signature's leaves.
    """

    record: Record
    function: Any
    binding: Binding
    devices: tuple[Any, ...]
    mesh: Mesh | None
    treedefs: dict[str, Any]

    @property
    def statics(self) -> tuple[str, ...]:
        """The names of the static arguments."""
        return tuple(name for name, _ in self.binding.statics)

    def sharding(self, index: int) -> Any:
        """Return the sharding of a committed leaf."""
        if self.mesh is None:
            return SingleDeviceSharding(self.devices[0])
        return NamedSharding(self.mesh, PartitionSpec(*self.record.calling.in_specs[index]))

    def leaves(self, committed: Sequence[bool] | None = None) -> list[Any]:
        """Return an aval for each leaf of the signature; those that are committed have a place."""
        avals = self.record.signature.leaves
        places = [
            self.sharding(index) if committed and committed[index] else None
            for index in range(len(avals))
        ]
        return [_struct(aval, place) for aval, place in zip(avals, places, strict=True)]

    def call(self, leaves: Sequence[Any], statics: Mapping[str, Any]) -> Given:
        """Return the arguments as a build passes them: by position wherever that is possible."""
        args, kwargs = self._trees(leaves)
        return Given(*call_arguments(self.binding, args, kwargs, dict(statics)))

    def call_by_name(self, leaves: Sequence[Any]) -> Given:
        """Return the arguments as the manifest says: `kwargs:` and static ones by name."""
        args, kwargs = self._trees(leaves)
        values = {**args, **dict(self.binding.statics)}
        positional, rest = [], dict(values)
        for name in self.binding.function.positional:
            if name not in rest:
                break
            positional.append(rest.pop(name))
        return Given(tuple(positional), {**rest, **kwargs})

    def leaf_order(self) -> list[int]:
        """Return the index of the signature's leaf for each input of a call that `call` makes."""
        numbers = range(len(self.record.signature.leaves))
        # A static argument is None here: that has no leaves, so it is not counted.
        given = self.call(list(numbers), dict.fromkeys(self.statics))
        return list(jax.tree.leaves((given.args, given.kwargs)))

    def arguments_of_leaves(self) -> list[str]:
        """Return the name of the argument that each leaf belongs to."""
        return [name for name, tree in self.treedefs.items() for _ in range(tree.num_leaves)]

    def _trees(self, leaves: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        found, start = {}, 0
        for name, treedef in self.treedefs.items():
            end = start + treedef.num_leaves
            try:
                found[name] = jax.tree.unflatten(treedef, leaves[start:end])
            except Exception as err:  # a type of the user's may raise anything
                what = f"the type of {name} takes no avals: {type(err).__name__}: {err}"
                raise NotExportable(what) from err
            start = end
        args = {name: found.pop(name) for name in self.binding.function.dynamic}
        return args, found


def source_of(
    record: Record,
    function: Function,
    devices: Sequence[Any],
    like: Mapping[str, str],
    imports: Imports,
) -> Source:
    """Import the source of a record; NotExportable says what jax's cache cannot have of it.

    `like` has `module:attr` of a tree for arguments that the record alone cannot give.
    """
    _check(record, function)
    try:
        found = import_named(function.call, imports)
        found = getattr(found, "__aotbuild_source__", found)
        signature = inspect.signature(found)
    except Exception as err:
        msg = (
            f"{function.call} cannot be imported here ({type(err).__name__}: {err}); install the "
            "package, or name its folder in PYTHONPATH"
        )
        raise NotExportable(msg) from err
    decoders = named(imports.found)
    try:
        statics = tuple((name, decode(data, decoders)) for name, data in record.signature.statics)
    except ValueError as err:
        msg = f"its static arguments cannot be made from the record alone: {err}"
        raise NotExportable(msg) from err
    binding = Binding(function, statics, signature)
    treedefs = arguments_of(record, function, like, imports)
    return Source(record, found, binding, tuple(devices), _mesh(record, devices), treedefs)


def _check(record: Record, function: Function) -> None:
    if function.wrap:
        msg = (
            f"it is compiled under {function.wrap}, whose program returns more than the "
            "executable; only functions under jax.jit have entries"
        )
        raise NotExportable(msg)
    if record.calling.callbacks and not jax_private.cache_binds_callbacks():
        msg = f"it calls back into Python, which the cache of jax {jax.__version__} does not bind"
        raise NotExportable(msg)
    if record.calling.constants:
        msg = "its constants are hoisted, and a program of plain jax.jit has them inside"
        raise NotExportable(msg)
    if record.requires.processes > 1:
        msg = f"it runs over {record.requires.processes} processes, and this is one"
        raise NotExportable(msg)


def _mesh(record: Record, devices: Sequence[Any]) -> Mesh | None:
    axes = dict(record.calling.mesh)
    if not axes:
        return None
    explicit = record.calling.explicit_axes
    types = tuple(AxisType.Explicit if name in explicit else AxisType.Auto for name in axes)
    grid = np.array(devices).reshape(tuple(axes.values()))
    return Mesh(grid, tuple(axes), axis_types=types)


def _struct(aval: Aval, sharding: Any) -> Any:
    dtype = jax_private.dtype_of(aval.dtype)
    return jax.ShapeDtypeStruct(aval.shape, dtype, sharding=sharding, weak_type=aval.weak_type)


@contextmanager
def settings_of(record: Record) -> Iterator[None]:
    """Set the options of jax that a record was traced with."""
    config = record.provenance.get("config")
    wanted = config if isinstance(config, dict) else {}
    wanted = {**wanted, "jax_use_simplified_jaxpr_constants": False}
    with _changed(wanted):
        yield


@contextmanager
def no_locations() -> Iterator[None]:
    """Leave the lines of the user's code out of modules, as builds do."""
    with _changed({_LOCATIONS: 0}):
        yield


@contextmanager
def cache_at(folder: str) -> Iterator[None]:
    """Set where jax's cache is. XLA's options have the path, and keys of jax 0.10.2 have them."""
    with _changed({"jax_compilation_cache_dir": folder, "jax_enable_compilation_cache": True}):
        yield


@contextmanager
def _changed(wanted: Mapping[str, Any]) -> Iterator[None]:
    before = {name: jax.config.values[name] for name in wanted if name in jax.config.values}
    try:
        for name, value in wanted.items():
            jax.config.update(name, value)
    except (ValueError, TypeError, AttributeError) as err:
        msg = f"jax {jax.__version__} refuses {name}={value!r}, with which it was traced: {err}"
        raise NotExportable(msg) from err
    else:
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
