"""Every private name of jax and jaxlib that the jax backend uses.

Each was tried on jax and jaxlib 0.10.2 (Python 3.11) and 0.12.0.1 (Python 3.12) unless it says
otherwise. No other file of the jax backend may import from `jax._src` or `jaxlib`, so this one is
longer than others: an upgrade of jax is checked here and, for one name, in `clients`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from jax import lax
from jax._src import (
    api_util,
    compiler,
    config,
    core,
    dtypes,
    op_shardings,
    sharding_impls,
    tree_util,
    xla_bridge,
)
from jax._src.interpreters import pxla
from jax._src.lib import _jax
from jax._src.lib import xla_client as xc
from jax._src.random import prng

from aotbuild.format.aval import Aval, NotAnArray
from aotbuild.format.target import HOST
from aotbuild.runtime.binding import with_static_values
from aotbuild.runtime.concurrency import clear_in_child

# Entries in the C++ cache of one function; jit's caches hold 8192 for all functions together.
_CACHE_CAPACITY = 1 << 16


# --- clients ------------------------------------------------------------------------------------


def make_clients(options: Mapping[str, Any]) -> None:
    """Have jax make its clients, if it has not, with PJRT options, if none are set.

    They hold for the making only: jax's setting is as before afterwards.
    """
    setting = config.jax_pjrt_client_create_options
    with setting(setting.value or dict(options) or None):
        xla_bridge.backends()


# --- dispatch -----------------------------------------------------------------------------------


def make_dispatch(
    name: str,
    source: Callable[..., Any],
    miss: Callable[..., Any],
    static_argnums: Sequence[int],
    static_argnames: Sequence[str],
) -> Callable[..., Any]:
    """Return jit's C++ dispatch, with a cache of its own, which calls `miss` on a cache miss.

    `miss(*args, **kwargs)` returns (outputs, fastpath data or None, False). `source` is called
    under `jax.disable_jit`. Compare pjit._cpp_pjit and MeshExecutable.create_cpp_call.
    """
    made: Any = _jax.pjit(
        name,
        source,
        miss,
        list(static_argnums),
        list(static_argnames),
        pxla.JitGlobalCppCacheKeys(),
        tree_util.dispatch_registry,
        _shard_arg,
        _jax.PjitFunctionCache(_CACHE_CAPACITY),
    )
    made._fun = _Named(name)
    dispatch: Callable[..., Any] = made
    clear_in_child(dispatch, clear_calls)
    return dispatch


class _Named:
    """What `api._nan_check_posthook` takes for the function of a jit, and names in its error.

    Without it, jax raises `InternalFloatingPointError`, which is no FloatingPointError. As that of
    a primitive, the function is not called to find the operation: a package may have no source.
    """

    _apply_primitive = True

    def __init__(self, name: str) -> None:
        self.__qualname__ = name


@contextmanager
def naming_odd_values(name: str) -> Iterator[None]:
    """Raise FloatingPointError for NaN or infinity that jax found, in the words of `_Named`."""
    try:
        yield
    except api_util.InternalFloatingPointError as err:
        msg = f"invalid value ({err.ty}) encountered in {name}"
        raise FloatingPointError(msg) from None


def clear_calls(dispatch: Any) -> None:
    """Clear the cache of a C++ dispatch.

    A miss in flight has its entry already, outside of the cache from now on (pjit.cc makes the
    entry before it calls `miss`, and fills it afterwards).
    """
    dispatch._clear_cache()


def fastpath_data(
    executable: Any, outputs: Sequence[Any], out_tree: Any, constants: Sequence[Any], leaves: int
) -> Any:
    """Return what the C++ dispatch needs to run a MeshExecutable, or None if it cannot.

    Compare MeshExecutable.create_cpp_call; only 0.12 makes the output shardings physical there.
    """
    flat, tree = pxla.reflatten_outputs_for_dispatch(out_tree, outputs)
    if not all(isinstance(array, xc.ArrayImpl) for array in flat):
        return None
    return pxla.MeshExecutableFastpathData(
        executable.xla_executable,
        with_static_values(tree, _dispatch_treedef),
        _physical(executable._in_shardings, executable.in_avals),
        _physical(executable._out_shardings, executable.out_avals),
        [array.aval for array in flat],
        [array._committed for array in flat],
        [index in executable._kept_var_idx for index in range(len(constants) + leaves)],
        executable._dispatch_in_layouts,
        constants,
    )


def spread(value: Any, sharding: Any) -> Any:
    """Return a value that jax can put into a sharding without compiling anything.

    jax compiles a program to split an array of one device over several (ArrayImpl._multi_slice),
    but none to split an array of the host.
    """
    if isinstance(value, prng.PRNGKeyArray):
        base = spread(value._base_array, sharding_impls.physical_sharding(value.aval, sharding))
        if base is value._base_array:
            return value
        physical = sharding_impls.physical_sharding(value.aval, sharding)
        return prng.PRNGKeyArray(value._impl, pxla.cc_shard_arg(base, physical, None))
    if not isinstance(value, xc.ArrayImpl) or value.sharding.num_devices > 1:
        return value
    if sharding.num_devices == 1 or sharding.is_fully_replicated:
        return value
    # Not numpy.asarray: the jax array would keep that view and could not be donated any more.
    return value._single_device_array_to_np_array_did_copy()[0]


def _shard_arg(value: Any, sharding: Any, layout: Any) -> Any:
    return pxla.cc_shard_arg(spread(value, sharding), sharding, layout)


def _physical(shardings: Iterable[Any], avals: Iterable[Any]) -> list[Any]:
    return [
        sharding_impls.physical_sharding(aval, sharding)
        if dtypes.issubdtype(aval.dtype, dtypes.extended)
        else sharding
        for sharding, aval in zip(shardings, avals, strict=True)
    ]


# --- executables --------------------------------------------------------------------------------


def deserialize(data: bytes, devices: Sequence[Any]) -> Any:
    """Return the XLA executable of PJRT bytes, loaded onto devices in that order.

    The devices may belong to several processes, each of which loads the same bytes (tried on CPUs).
    The bytes must be complete and fit: XLA aborts the process otherwise.
    """
    client = devices[0].client
    options = compiler.get_compile_options(
        num_replicas=1,
        num_partitions=len(devices),
        device_assignment=np.array([list(devices)]),
        backend=client,
    )
    return client.deserialize_executable(
        data, executable_devices=xc.DeviceList(tuple(devices)), compile_options=options
    )


def mesh_executable(
    xla_executable: Any,
    name: str,
    devices: Sequence[Any],
    inputs: Sequence[tuple[Aval, Any]],
    outputs: Sequence[tuple[Aval, Any]],
    kept: Sequence[int],
    committed: bool,
) -> Any:
    """Return jax's MeshExecutable; `inputs` are (aval, sharding) of the kept inputs only."""
    unloaded = pxla.UnloadedMeshExecutable(
        xla_executable=xla_executable,
        device_list=xc.DeviceList(tuple(devices)),
        backend=devices[0].client,
        input_avals=[shaped_array(aval) for aval, _ in inputs],
        input_shardings=[sharding for _, sharding in inputs],
        output_avals=[shaped_array(aval) for aval, _ in outputs],
        output_shardings=[sharding for _, sharding in outputs],
        committed=committed,
        name=name,
        unordered_effects=[],
        ordered_effects=[],
        keepalive=(),
        host_callbacks=(),
        kept_var_idx=set(kept),
        mut=None,
        xla_in_layouts=[None] * len(inputs),
        dispatch_in_layouts=[None] * len(inputs),
        xla_out_layouts=[None] * len(outputs),
        all_args_info=None,
        pgle_profiler=None,
    )
    return unloaded.load()


def parameter_shardings(xla_executable: Any, mesh: Any) -> list[Any]:
    """Return the sharding that XLA chose for each kept input of an executable over a mesh."""
    specs = [
        sharding_impls.parse_flatten_op_sharding(sharding, mesh)[0]
        for sharding in xla_executable.get_parameter_shardings() or ()
    ]
    return [sharding_impls.NamedSharding(mesh, spec) for spec in specs]


def has_shardings(
    xla_executable: Any, inputs: Sequence[tuple[Aval, Any]], outputs: Sequence[tuple[Aval, Any]]
) -> bool:
    """Return whether an executable is sharded as (aval, sharding) pairs say.

    Inputs of another size segfault in XLA; outputs in another order give wrong results.
    """
    pairs = (
        (xla_executable.get_parameter_shardings(), inputs),
        (xla_executable.get_output_shardings(), outputs),
    )
    return all(found is None or _all_equal(found, expected) for found, expected in pairs)


def _all_equal(found: Sequence[Any], expected: Sequence[tuple[Aval, Any]]) -> bool:
    avals = [shaped_array(aval) for aval, _ in expected]
    shardings = _physical([sharding for _, sharding in expected], avals)
    ranks = [core.physical_aval(aval).ndim for aval in avals]
    return len(found) == len(expected) and all(
        op_shardings.are_hlo_shardings_equal(
            xc.HloSharding.from_proto(have), want._to_xla_hlo_sharding(rank)
        )
        for have, want, rank in zip(found, shardings, ranks, strict=True)
    )


def register_custom_call(target: str, handler: Any, platform: str) -> None:
    """Register a custom call of XLA's typed FFI; see `ExecutableLoader.register`.

    The client was made before, so jax passes it on to XLA, or to the platform's plugin.
    """
    xc.register_custom_call_target(target, handler, platform, 1)


def custom_call_targets(platform: str) -> frozenset[str] | None:
    """Return the custom-call targets that are registered for a platform; None if XLA lists none.

    The list of a platform with a plugin is empty, whatever is registered (seen on an H100).
    """
    return frozenset(xc.custom_call_targets(platform)) if platform == HOST else None


# --- arrays -------------------------------------------------------------------------------------


def aval_of(value: Any) -> Aval:
    """Return the aval that jit would give a value; NotAnArray if jit would refuse it."""
    if not any(kind in pxla.shard_arg_handlers for kind in type(value).__mro__):
        raise NotAnArray(value)
    try:
        abstract = core.shaped_abstractify(value)
    except (TypeError, ValueError, OverflowError) as err:
        raise NotAnArray(value, err) from err
    if type(abstract) is not core.ShapedArray:
        raise NotAnArray(value, abstract)
    aval = Aval(tuple(abstract.shape), str(abstract.dtype), bool(abstract.weak_type))
    try:
        str(aval)
    except KeyError:
        raise NotAnArray(value, f"its dtype is {abstract.dtype}") from None
    return aval


def shaped_array(aval: Aval) -> Any:
    """Return an aval as jax's ShapedArray."""
    return core.ShapedArray(aval.shape, dtype_of(aval), weak_type=aval.weak_type)


def dtype_of(aval: Aval) -> Any:
    """Return the numpy dtype of an aval, or jax's dtype of typed PRNG keys."""
    if aval.dtype.startswith("key<"):
        return prng.KeyTy(_prng_impl(aval.dtype))
    # Not jax's own `dtype`, which narrows 64 bits where x64 is off. A function may switch it on
    # inside, and then jit returns 64 bits, too.
    return np.dtype(aval.dtype)


def put(array: Any, aval: Aval, sharding: Any) -> Any:
    """Return a numpy array as a jax array with a sharding; traces and compiles nothing.

    For a typed PRNG key, `array` is its uint32 data.
    """
    if aval.dtype.startswith("key<"):
        impl = _prng_impl(aval.dtype)
        physical = sharding_impls.physical_sharding(shaped_array(aval), sharding)
        return prng.PRNGKeyArray(impl, pxla.cc_shard_arg(array, physical, None))
    return pxla.cc_shard_arg(array, sharding, None)


def physical_shape(aval: Aval) -> tuple[tuple[int, ...], Any]:
    """Return (shape, numpy dtype) of the array that an aval is stored as.

    A typed PRNG key is stored as uint32 data with the axes of its key shape at the end.
    """
    if aval.dtype.startswith("key<"):
        return (*aval.shape, *_prng_impl(aval.dtype).key_shape), np.dtype(np.uint32)
    return aval.shape, np.dtype(dtype_of(aval))


def host_view(array: Any) -> Any:
    """Return a jax array as a numpy array, on a CPU without a copy.

    The view keeps the array from being donated while it lives. All shards must be in this process.
    """
    if array.sharding.num_devices == 1:
        return array._single_device_array_to_np_array_did_copy()[0]
    whole = np.empty(array.shape, array.dtype)
    for shard in array.addressable_shards:
        whole[shard.index] = host_view(shard.data)
    return whole


def put_like(array: Any, like: Any) -> Any:
    """Return a numpy array as a jax array placed like `like`, as committed and as weakly typed.

    It is sharded like `like` if the sharding fits its shape, else replicated over the devices.
    """
    sharding = like.sharding
    aval = core.ShapedArray(array.shape, like.dtype, weak_type=like.weak_type)
    if sharding.num_devices == 1:
        devices = list(sharding.device_set)
        return xc.batched_device_put(aval, sharding, [array], devices, like.committed)
    try:
        sharding.shard_shape(array.shape)
    except ValueError:
        sharding = sharding_impls.NamedSharding(sharding.mesh, sharding_impls.PartitionSpec())
    placed = pxla.cc_shard_arg(array, sharding, None)
    return xc.ArrayImpl(aval, sharding, placed._arrays, like.committed, _skip_checks=True)


def weakly_typed(array: Any) -> Any:
    """Return an array, or a tracer, with the weak type. Private: the primitive's parameters."""
    return lax.convert_element_type_p.bind(
        array, new_dtype=array.dtype, weak_type=True, sharding=None
    )


def has_default_layout(array: Any) -> bool:
    """Return whether a jax array has the memory layout that an executable expects.

    That is row-major on CPUs and GPUs. TPUs have other defaults: f32[1000,2] is transposed.
    """
    if isinstance(array, prng.PRNGKeyArray):
        return has_default_layout(array._base_array)
    return bool(pxla.is_default_layout(array.format.layout, array.sharding, array.aval))


def device_assignment(sharding: Any) -> tuple[Any, ...]:
    """Return the devices of a sharding in its own order."""
    return tuple(sharding._device_assignment)


def _prng_impl(dtype: str) -> Any:
    tag = dtype.removeprefix("key<").removesuffix(">")
    return next(impl for impl in prng.prngs.values() if impl.tag == tag)


# --- trees --------------------------------------------------------------------------------------


def _dispatch_treedef(node_data: tuple[type, Any] | None, children: Sequence[Any]) -> Any:
    """Return a treedef as `make_treedef` does, of the registry in which PRNG keys are nodes."""
    return _made_of(tree_util.dispatch_registry, node_data, children)


def make_treedef(node_data: tuple[type, Any] | None, children: Sequence[Any]) -> Any:
    """Return the treedef of a node, or of a leaf; ValueError if its type is not registered."""
    return _made_of(tree_util.default_registry, node_data, children)


def _made_of(registry: Any, node_data: tuple[type, Any] | None, children: Sequence[Any]) -> Any:
    kind, data = node_data or (None, None)
    if not (isinstance(kind, type) and hasattr(kind, "_fields") and kind in tree_util._registry):
        return tree_util.PyTreeDef.from_node_data_and_children(registry, node_data, children)
    # jaxlib would make a plain namedtuple of a type that is registered otherwise, such as
    # `jax.example_libraries.optimizers.OptimizerState`.
    held = [child.unflatten([object()] * child.num_leaves) for child in children]
    return registry.flatten(tree_util._registry[kind].from_iter(data, held))[1]


def has_tracers(values: Sequence[Any]) -> bool:
    """Return whether one of some trees holds a tracer; False for trees that cannot be flattened."""
    try:
        leaves = tree_util.tree_leaves(values)
    except ValueError:
        return False
    return any(isinstance(leaf, core.Tracer) for leaf in leaves)
