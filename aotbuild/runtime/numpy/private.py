"""Every private name of jaxlib that the numpy backend uses. It never imports jax, not even in C++.

Each was tried on jaxlib 0.10.2 (Python 3.11) and 0.12.0.1 (Python 3.13), with jax and without it.

jaxlib's C++ imports jax to make an array that has no aval or sharding yet: in
`disassemble_into_single_device_arrays`, `consume_with_handlers` without a result handler,
`_single_device_array_to_np_array_did_copy`, `_copy_single_device_array_to_host_async`,
`_fully_replicated_shard`, and where it takes a dlpack or CUDA array (py_array.cc, sharding.cc).
If that import fails, it remembers for the rest of the process that there is no `ShapedArray`, and
a later `import jax` gets arrays without avals. So none of these is used: `pjit` is given avals and
shardings, and results are read through the buffer protocol.
"""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from aotbuild.format.target import HOST
from aotbuild.runtime.concurrency import clear_in_child

_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep XLA from logging messages below warnings, as jax does.

    XLA reads the variable once, while it is loaded; afterwards the variable is as it was.
    """
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = "1"
    try:
        yield
    finally:
        os.environ.pop(_LOG_LEVEL, None)


with _quiet():
    from jaxlib import _hlo, _jax

# Entries in the C++ cache of one function; jit's caches hold 8192 for all functions together.
_CACHE_CAPACITY = 1 << 16
# The name that the plugin is loaded under. Not `cuda`, which jax takes: jaxlib loads one plugin per
# name. To read the version in an executable, jaxlib 0.12.0.1 looks for a plugin named gpu, cuda,
# rocm or oneapi, and fails without one: "NOT_FOUND: Supported GPU plugins not found"
# (gpu_xla_executable_abi_version_serdes::PjRtExecutableAbiVersionFromProto). 0.10.2 does not look.
_GPU = "gpu"
_CUDA = "CUDA"
_HOST = "Host"  # XLA's name of the platform cpu
_LONGEST_WAIT = 1  # second, for a lock that is held for some microseconds


# --- the state of the process -----------------------------------------------------------------


def ensure_states(x64: bool) -> None:
    """Give the C++ dispatch the three settings that it reads, unless jax has set them.

    jax sets them while it is imported, and its settings must win, in whatever order two threads do
    this. Nothing is waited for: a signal handler may come while another thread imports jax, and
    nested waits for an import deadlock (before Python 3.12: KeyError).
    """
    jit = _jax.jax_jit
    for module, name, use, value in (
        ("jax._src.config", "enable_x64", jit.set_enable_x64_state, x64),
        ("jax._src.config", "disable_jit", jit.set_disable_jit_state, False),
        ("jax._src.api", "_post_hook_state", jit.set_post_hook_state, None),
    ):
        theirs = _made_by_jax(module, name)
        if theirs is None and name not in _ours:
            _ours[name] = ours = _jax.config.Config(f"aotbuild_{name}", value)
            use(ours)
            # jax makes its own before it sets it: either it is there now, or jax sets it later.
            theirs = _made_by_jax(module, name)
        if theirs is not None:
            use(theirs)


_ours: dict[str, Any] = {}


def x64_state() -> bool | None:
    """Return the 64-bit mode that C++ was given here; None if it has none, or jax's, as yet."""
    ours = _ours.get("enable_x64")
    return None if ours is None else bool(ours.value)


def _made_by_jax(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, None)


# --- clients ------------------------------------------------------------------------------------


def make_host_client(devices: int | None) -> Any:
    """Return a new client for this machine's CPU that runs executables in the calling thread.

    This backend waits for every result, so a thread to run in would only cost time.
    """
    return _jax.get_tfrt_cpu_client(asynchronous=False, num_devices=devices)


def make_cuda_client(library: str, extension: Any, options: Mapping[str, Any]) -> Any:
    """Return a new client for the GPUs, from the plugin's library, as jax makes its own.

    `extension` registers custom calls with the plugin. jaxlib reads its variables; `options` count
    beside them.
    """
    from jaxlib.xla_client import generate_pjrt_gpu_plugin_options

    with _quiet():  # the plugin has a log of its own
        _load_plugin(library, extension)
        if not _jax.pjrt_plugin_initialized(_GPU):
            _jax.initialize_pjrt_plugin(_GPU)
        return _jax.get_c_api_client(_GPU, {**generate_pjrt_gpu_plugin_options(), **options})


@cache
def _load_plugin(library: str, extension: Any) -> None:
    """Load the plugin, and have all custom calls of the platform registered with it from now on.

    Cached, because jaxlib refuses to load a plugin twice under one name. `xla_client` passes on
    what waits and what comes, also jax's own, if jax is imported later. If jax was there before,
    its route leads to the same plugin.
    """
    from jaxlib import xla_client

    plugin = _jax.load_pjrt_plugin(_GPU, library, None)
    if extension is None:
        return
    xla_client.register_custom_type_handler(_CUDA, partial(extension.register_custom_type, plugin))
    for name, kind in extension.ffi_types().items():
        xla_client.register_custom_type(name, kind, platform=_CUDA)
    pass_on_targets(_CUDA, partial(extension.register_custom_call_target, plugin))


# --- trees --------------------------------------------------------------------------------------


def make_registry() -> Any:
    """Return a registry, separate from jax's, of the standard containers and namedtuples."""
    return _jax.pytree.PyTreeRegistry()


def register_fields(registry: Any, kind: type, fields: Sequence[str]) -> None:
    """Register a type whose attributes are its children; C++ reads them without calling Python."""
    registry.register_dataclass_node(kind, list(fields), [])


def make_treedef(registry: Any, node_data: tuple[type, Any] | None, children: Sequence[Any]) -> Any:
    """Return the treedef of a node, or of a leaf; ValueError if its type is not registered."""
    return _jax.pytree.PyTreeDef.from_node_data_and_children(registry, node_data, children)


def with_keys(flatten: Callable[[Any], tuple[Any, Any]]) -> Callable[[Any], tuple[Any, Any]]:
    """Return a function that flattens a mapping into (key, child) pairs, for leaf paths."""

    def flatten_with_keys(tree: Any) -> tuple[Any, Any]:
        children, data = flatten(tree)
        keys = data if isinstance(tree, OrderedDict) else data[1]
        pairs = zip(map(_jax.pytree.DictKey, keys), children, strict=True)
        return tuple(pairs), data

    return flatten_with_keys


# --- executables --------------------------------------------------------------------------------


class _Sharding(_jax.SingleDeviceSharding):  # type: ignore[misc]
    """One device, in its own memory."""

    memory_kind = None

    def _to_xla_hlo_sharding(self, _: int) -> Any:
        return _hlo.HloSharding.replicate()


class _Aval(NamedTuple):
    """The attributes of an aval that C++ reads."""

    shape: tuple[int, ...]
    dtype: Any
    weak_type: bool


class _FastpathData(NamedTuple):
    """The attributes that C++ reads of jax's MeshExecutableFastpathData (interpreters.pxla)."""

    xla_executable: Any
    out_pytree_def: Any
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Any]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[None]
    const_args: Sequence[Any]


def deserialize(data: bytes, device: Any) -> Any:
    """Return the XLA executable of PJRT bytes, loaded onto a device.

    The bytes must be complete and fit: XLA aborts the process otherwise.
    """
    options = _jax.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.executable_build_options.use_spmd_partitioning = True
    options.device_assignment = _jax.DeviceAssignment.create(np.array([[device.id]]))
    return device.client.deserialize_executable(
        data, executable_devices=_jax.DeviceList((device,)), compile_options=options
    )


def put(array: Any, device: Any) -> Any:
    """Return a numpy array on a device, without a copy if it is aligned to 64 bytes."""
    aval = _Aval(array.shape, array.dtype, weak_type=False)
    return _jax.batched_device_put(aval, _Sharding(device), [array], [device], enable_x64=True)


@contextmanager
def kept_from_donation(array: Any) -> Iterator[None]:
    """Have XLA copy an array rather than take its memory, if it is donated while the block runs.

    Packed integers have no form in DLPack, and are not kept. RuntimeError for a deleted array.
    """
    try:
        kept = _jax.buffer_to_dlpack_managed_tensor(array)
    except RuntimeError as err:
        if "no DLPack" not in str(err):
            raise
        kept = None
    try:
        yield
    finally:
        del kept


def device_of(array: Any) -> Any:
    """Return the device of jaxlib's array."""
    return array._sharding._device


def make_dispatch(
    name: str,
    source: Callable[..., Any],
    miss: Callable[..., Any],
    static_argnums: Sequence[int],
    static_argnames: Sequence[str],
    registry: Any,
) -> Callable[..., Any]:
    """Return jit's C++ dispatch, with a cache of its own, which calls `miss` on a cache miss.

    `miss(*args, **kwargs)` returns (outputs, fastpath data or None, False). `source` is called
    under `jax.disable_jit`. A call with anything but numpy arrays, numbers and jaxlib's arrays
    always misses.
    """
    dispatch: Callable[..., Any] = _jax.pjit(
        name,
        source,
        miss,
        list(static_argnums),
        list(static_argnames),
        object(),
        registry,
        _no_other_array,
        _jax.PjitFunctionCache(_CACHE_CAPACITY),
    )
    clear_in_child(dispatch, clear_calls)
    return dispatch


def clear_calls(dispatch: Any) -> None:
    """Clear the cache of a C++ dispatch.

    A miss in flight has its entry already, outside of the cache from now on (pjit.cc makes the
    entry before it calls `miss`, and fills it afterwards).
    """
    dispatch._clear_cache()


def _no_other_array(*_: Any) -> Any:
    msg = "an argument is no numpy array and no number"
    raise TypeError(msg)


def fastpath_data(
    executable: Any,
    device: Any,
    outputs: Sequence[tuple[tuple[int, ...], Any]],
    out_tree: Any,
    constants: Sequence[Any],
    kept: Sequence[bool],
) -> Any:
    """Return what the C++ dispatch needs to run an executable.

    `outputs` are (shape, dtype). `kept` has a flag for each constant, then for each leaf: whether
    the executable takes it. The leaves of `out_tree` become jaxlib's arrays.
    """
    sharding = _Sharding(device)
    return _FastpathData(
        executable,
        out_tree,
        [sharding] * sum(kept),
        [sharding] * len(outputs),
        [_Aval(shape, dtype, weak_type=False) for shape, dtype in outputs],
        [True] * len(outputs),
        kept,
        [None] * sum(kept),
        constants,
    )


# --- custom calls -------------------------------------------------------------------------------


def register_custom_call(target: str, handler: Any, platform: str) -> None:
    """Register a custom call of XLA's typed FFI; see `ExecutableLoader.register`."""
    if platform == _HOST:
        _jax.register_custom_call_target(target, handler, platform, 1)
        return
    from jaxlib import xla_client  # the process has it since a client was made

    xla_client.register_custom_call_target(target, handler, platform, 1)


def custom_call_targets(platform: str) -> frozenset[str] | None:
    """Return the custom-call targets that are registered for a platform; None if XLA lists none.

    The list of a platform with a plugin is empty, whatever is registered (seen on an H100).
    """
    if platform != HOST:
        return None
    pass_on_targets(_HOST, _jax.register_custom_call_target)
    return frozenset(_jax.custom_call_targets(_HOST))


def pass_on_targets(platform: str, register: Callable[..., Any]) -> None:
    """Pass the targets on to XLA that `jax.ffi` registered, and those that it will register.

    `jax.ffi` registers with `xla_client`, under XLA's name of the platform, and jax passes it all
    on when it makes a client. This does what `xla_client.register_custom_call_handler` does, which
    would deadlock in a signal handler: the code that it interrupted may hold the lock, so the wait
    for it is limited. While another thread imports the module, nobody has registered anything.
    """
    client: Any = sys.modules.get("jaxlib.xla_client")
    if not hasattr(client, "register_custom_call_handler"):
        return
    if platform in client._custom_callback_handler or not client._custom_callback_lock.acquire(
        timeout=_LONGEST_WAIT
    ):
        return
    try:
        for name, target, *options in client._custom_callback.pop(platform, ()):
            register(name, target, platform, *options)
        client._custom_callback_handler.setdefault(platform, register)
    finally:
        client._custom_callback_lock.release()
