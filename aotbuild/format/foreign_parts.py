"""What objects of numpy and jax consist of. Neither is imported: a value's own type tells.

Devices count by their kind and never by their number, arrays by their bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.values import NotEncodable, is_of_numpy, type_name

# Larger arrays take longer to read than a call may wait.
_MOST_BYTES = 1 << 28


def is_numpy(value: Any) -> bool:
    """Return whether this is an array or a scalar of numpy."""
    return is_of_numpy(value, "ndarray", "generic")


def is_treedef(value: Any) -> bool:
    """Return whether this is a `jax.tree_util.PyTreeDef`."""
    return _is_of_jaxlib(value, "PyTreeDef")


def _numpy(value: Any) -> Any:
    kind, state = type(value), getattr(value, "__dict__", {})
    extra = [("(type)", kind), *((f".{name}", state[name]) for name in sorted(state))]
    if value.dtype.hasobject:
        return "array", list(value.shape), [*extra, ("", value.reshape(-1).tolist())]
    return "array", _data(value), extra


def _data(array: Any) -> list[Any]:
    if array.nbytes > _MOST_BYTES:
        msg = (
            f"an array of {array.nbytes >> 20} MiB is too large to compare: pass it as an argument"
        )
        raise NotEncodable(msg)
    return [str(array.dtype), list(array.shape), sha256_hex(array.tobytes())]


def _is_of_jaxlib(value: Any, name: str) -> bool:
    kind = type(value)
    return kind.__name__ == name and kind.__module__.startswith("jaxlib")


def _is_of_jax(path: str) -> Callable[[Any], bool]:
    """Return the check for a public type of jax, which is false while jax is not imported."""

    def is_kind(value: Any) -> bool:
        found: Any = sys.modules.get("jax")
        for name in path.split("."):
            found = getattr(found, name, None)
        return found is not None and isinstance(value, found)

    return is_kind


def _jax_array(value: Any) -> Any:
    jax, numpy = sys.modules["jax"], sys.modules["numpy"]
    if isinstance(value, jax.core.Tracer):
        msg = "it holds a value that is being traced"
        raise NotEncodable(msg)
    weak, dtype = bool(getattr(value, "weak_type", False)), str(value.dtype)
    stored = jax.random.key_data(value) if dtype.startswith("key<") else value
    return "jax.Array", [dtype, weak, *_data(numpy.asarray(stored))], []


def _jitted(value: Any) -> Any:
    """Return what jax.jit wraps, and its options."""
    state = value.__getstate__()
    options = [name for name in sorted(state) if name.startswith(("static_arg", "global_cache"))]
    return "jit", None, [("", value.__wrapped__), *((f"({name})", state[name]) for name in options)]


def _treedef(value: Any) -> Any:
    node = value.node_data()
    if node is None:
        return "treedef", value.num_leaves, []
    children = [(f"[{index}]", child) for index, child in enumerate(value.children())]
    return "treedef", None, [("(type)", node[0]), ("(data)", node[1]), *children]


def _mesh(value: Any) -> Any:
    axes = list(value.axis_names), list(value.devices.shape), list(map(str, value.axis_types))
    return "mesh", [*axes, _kinds(value.devices.flat)], []


def _sharding(value: Any) -> Any:
    head = [type_name(type(value)), value.memory_kind]
    if hasattr(value, "mesh") and hasattr(value, "spec"):
        return "sharding", [*head, str(value.spec)], [(".mesh", value.mesh)]
    return "sharding", [*head, value.num_devices, _kinds(value.device_set)], []


def _kinds(devices: Any) -> list[str]:
    return sorted({device.device_kind for device in devices})


FOREIGN_READERS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Any]], ...] = (
    (is_numpy, _numpy),
    (lambda value: is_of_numpy(value, "dtype"), lambda value: ("dtype", str(value), [])),
    (lambda value: _is_of_jaxlib(value, "PjitFunction"), _jitted),
    (is_treedef, _treedef),
    (_is_of_jax("Array"), _jax_array),
    (_is_of_jax("Device"), lambda value: ("device", [value.platform, value.device_kind], [])),
    (_is_of_jax("sharding.Mesh"), _mesh),
    (_is_of_jax("sharding.Sharding"), _sharding),
)
