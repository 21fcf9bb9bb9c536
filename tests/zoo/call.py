"""Run one program of the zoo in this process, and write what came out and what it took.

    python call.py aot | jit | numpy PROGRAM OUT

`aot` gives the program's driver the function of the wheel, `jit` gives it the source under jit.
`numpy` has no driver: it repeats the calls that `jit` wrote down, in a process without jax.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

Call = Callable[..., Any]


def main(mode: str, program: Path, out: Path) -> None:
    manifest = yaml.safe_load((program / "aot.yaml").read_text())
    if mode == "numpy":
        functions = manifest["functions"].values()
        if all(f.get("config", {}).get("jax_enable_x64") for f in functions):
            os.environ["JAX_ENABLE_X64"] = "1"  # where a user without jax says it
        import aotbuild

        library = aotbuild.load(manifest["package"], arrays="numpy")
        names = [path.parent.name for path in sorted(out.glob("*/calls.json"))]
        reports = {name: repeat(library, name, out / name) for name in names}
        assert "jax" not in sys.modules, "the numpy backend imported jax"
    else:
        reports = drive(mode, program, manifest, out)
    (out / f"{mode}.json").write_text(json.dumps(reports))


# --- with jax -------------------------------------------------------------------------------------


class Watched:
    """A function that counts what jax compiles during its calls, and keeps calls and results."""

    def __init__(self, function: Call) -> None:
        import jax

        self._function = function
        self.events: list[str] = []
        self.seconds: list[float] = []
        self.calls: list[tuple[Any, Any, Any]] = []
        self._is_inside = False
        jax.monitoring.register_event_duration_secs_listener(self._note)

    def _note(self, event: str, seconds: float, **_: object) -> None:
        if self._is_inside and "/compile/" in event:
            self.events.append(event)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import jax

        given = plain(args), plain(kwargs)  # before the call, which may donate its arguments
        self._is_inside = True
        started = time.perf_counter()
        try:
            result = jax.block_until_ready(self._function(*args, **kwargs))
        finally:
            self._is_inside = False
        self.seconds.append(time.perf_counter() - started)
        self.calls.append((*given, plain(result)))
        return result


def drive(mode: str, program: Path, manifest: Any, out: Path) -> dict[str, Any]:
    """Run the driver of each function of the program."""
    import jax

    functions = manifest["functions"]
    for options in functions.values():
        for key, value in options.get("config", {}).items():
            jax.config.update(key, value)
    driver = load_driver(program)
    # In both modes, so that neither pays for imports.
    sources = {name: resolve(options["call"]) for name, options in functions.items()}
    reports = {}
    for name, options in functions.items():
        started = time.perf_counter()
        if mode == "jit":
            function = under_jit(sources[name], options)
        else:
            function = of_wheel(manifest["package"], name)
        opened = time.perf_counter() - started
        report = _drive(Watched(function), getattr(driver, name), out / name, mode)
        reports[name] = {**report, "first": opened + report["first"]}
    return reports


def _drive(watched: Watched, driver: Call, out: Path, mode: str) -> dict[str, Any]:
    """Run the driver of a function; write the leaves of what it returns."""
    import jax

    out.mkdir(exist_ok=True)
    leaves, tree = jax.tree.flatten(driver(watched))
    write_leaves(out / f"{mode}.npz", [as_numpy(leaf) for leaf in leaves])
    if mode == "jit":
        write_calls(out, watched.calls)
    return {
        "tree": str(tree),
        "events": watched.events,
        "first": watched.seconds[0],
        "calls": len(watched.seconds),
    }


def load_driver(program: Path) -> Any:
    spec = importlib.util.spec_from_file_location("drive", program / "drive.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def resolve(call: str) -> Any:
    module, _, path = call.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def of_wheel(package: str, name: str) -> Call:
    import aotbuild

    function: Call = getattr(aotbuild.load(package), name)
    return function


def under_jit(source: Any, options: Mapping[str, Any]) -> Call:
    """Return the source under the jit that a user would write."""
    import jax

    if hasattr(source, "lower"):
        return source  # it is under jit already, of jax or of a library
    if "wrap" in options:
        wrap: Call = resolve(WRAPPERS[options["wrap"]])
        return wrap(source)
    static = options.get("static", {})
    donate = options.get("donate", [])
    return jax.jit(
        source,
        static_argnums=[key for key in static if isinstance(key, int)] or None,
        static_argnames=[key for key in static if isinstance(key, str)] or None,
        donate_argnames=donate or None,
    )


WRAPPERS = {"nnx.jit": "flax.nnx:jit", "eqx.filter_jit": "equinox:filter_jit"}


def as_numpy(leaf: Any) -> np.ndarray[Any, Any]:
    import jax

    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if not isinstance(leaf, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)):
        return np.asarray(str(type(leaf)))  # a static leaf, such as a function of an eqx.Module
    return np.asarray(leaf)


# --- calls that need no jax -----------------------------------------------------------------------


class NotPlainError(Exception):
    """A tree has something that only jax knows."""


def plain(tree: Any) -> Any:
    """Return a copy of a tree of builtin containers with numpy's arrays; None for another one."""
    try:
        return {"tree": _plain(tree)}
    except NotPlainError:
        return None


def _plain(tree: Any) -> Any:
    import jax

    if type(tree) is dict:
        return {key: _plain(value) for key, value in tree.items()}
    if type(tree) in (list, tuple):
        return type(tree)(map(_plain, tree))
    if tree is None or type(tree) in (bool, int, float, complex, str):
        return tree
    is_array = isinstance(tree, (jax.Array, np.ndarray, np.generic))
    if not is_array or jax.dtypes.issubdtype(tree.dtype, jax.dtypes.extended):
        raise NotPlainError
    if isinstance(tree, jax.Array) and len(tree.sharding.device_set) > 1:
        raise NotPlainError
    return np.array(tree)


def is_plain(calls: list[tuple[Any, Any, Any]]) -> bool:
    return all(part is not None for call in calls for part in call)


def write_calls(out: Path, calls: list[tuple[Any, Any, Any]]) -> None:
    if is_plain(calls):
        leaves: list[np.ndarray[Any, Any]] = []
        tree = _to_json([[part["tree"] for part in call] for call in calls], leaves)
        write_leaves(out / "calls.npz", leaves)
        (out / "calls.json").write_text(json.dumps(tree))


def repeat(library: Any, name: str, out: Path) -> dict[str, Any]:
    """Repeat the calls that `jit` wrote down, with numpy's arrays."""
    leaves = read_leaves(out / "calls.npz")
    calls = _from_json(json.loads((out / "calls.json").read_text()), leaves)
    function = getattr(library, name)
    found: list[np.ndarray[Any, Any]] = []
    expected: list[np.ndarray[Any, Any]] = []
    seconds = []
    for args, kwargs, result in calls:
        started = time.perf_counter()
        again = function(*args, **kwargs)
        seconds.append(time.perf_counter() - started)
        trees = _to_json(again, found), _to_json(result, expected)
        assert trees[0] == trees[1], trees
    write_leaves(out / "numpy.npz", found)
    write_leaves(out / "expected.npz", expected)
    return {"first": seconds[0]}


def _to_json(tree: Any, leaves: list[np.ndarray[Any, Any]]) -> Any:
    if isinstance(tree, dict):
        return ["dict", [[key, _to_json(tree[key], leaves)] for key in sorted(tree)]]
    if isinstance(tree, (list, tuple)):
        return [type(tree).__name__, [_to_json(child, leaves) for child in tree]]
    if isinstance(tree, np.ndarray):
        leaves.append(tree)
        return ["array", len(leaves) - 1]
    return ["value", tree]


def _from_json(node: Any, leaves: list[np.ndarray[Any, Any]]) -> Any:
    kind, content = node
    if kind == "dict":
        return {key: _from_json(child, leaves) for key, child in content}
    if kind in ("list", "tuple"):
        children = [_from_json(child, leaves) for child in content]
        return children if kind == "list" else tuple(children)
    return leaves[content] if kind == "array" else content


# --- leaves in a file -----------------------------------------------------------------------------


def write_leaves(path: Path, leaves: list[np.ndarray[Any, Any]]) -> None:
    """Write arrays of any dtype: those of ml_dtypes as bytes, with their names."""
    names = np.array([str(leaf.dtype) for leaf in leaves], dtype=str)
    arrays = [leaf.view(f"u{leaf.itemsize}") if leaf.dtype.kind == "V" else leaf for leaf in leaves]
    np.savez(path, *arrays, dtypes=names)


def read_leaves(path: Path) -> list[np.ndarray[Any, Any]]:
    with np.load(path) as file:
        names = file["dtypes"]
        arrays = [file[f"arr_{place}"] for place in range(len(names))]
    return [_typed(array, str(name)) for array, name in zip(arrays, names, strict=True)]


def _typed(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    if str(array.dtype) == name:
        return array
    import ml_dtypes

    return array.view(getattr(ml_dtypes, name))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
