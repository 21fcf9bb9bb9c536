"""Packages whose records lie: every digest fits, so that only what a record says can betray it.

`base` compiles a few functions once. `edited` copies one of them with another record, another
function or another header, and mends all digests.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage.forks import Forks
from support import packages
from support.index_fuzz import objects_of, with_fresh_digests
from support.shared import made_once, run_folder

from aotbuild.build.constant_blobs import serialize
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.golden import sample_indices, seeded
from aotbuild.format.index import INDEX_NAME, Index
from aotbuild.format.padding import PaddedDim, Padding
from aotbuild.format.record import Blob, Golden

BACKENDS = ("jax", "numpy")
CASES = "cases.npz"
# From the JSON of a record, function or header to that of a lie; in place, or returned.
Edit = Callable[[Any], Any]


def base(factory: pytest.TempPathFactory) -> Path:
    """Return the `_aot` folder of the honest package; beside it are calls and their results.

    | function | takes | returns |
    |---|---|---|
    | double | f32[16] | f32[16] |
    | both | f32[16] | {"down": f32[16], "up": f32[16]} |
    | add | f32[8], f32[8] | f32[8] |
    | narrow | f32[8] | bf16[8]; the numpy backend reads such results by their avals |
    | factor | f32[8,8] | f32[8,8], by LAPACK |
    | shifted | f32[16] | f32[16], with a constant of 64 bytes |
    | first | f32[8], f32[4] that is not used | f32[8] |
    | taken | f32[4] that is not used, f32[8], which it donates | f32[8] |
    | rows | f32[n,4] for n = 2 and 4, padded between | f32[n,4] |
    | wide | f64[4], under x64 | f64[4] |
    """
    return made_once(run_folder(factory) / "honest", _make) / "_aot"


def edited(
    honest: Path,
    place: Path,
    name: str,
    record: Edit | None = None,
    *,
    function: Edit | None = None,
    header: Edit | None = None,
    renamed: str = "",
) -> Path:
    """Write a package of one function of the honest one, changed, and return its `_aot` folder.

    Each record of the function is edited. With `renamed`, the function has another name there.
    """
    return together(honest, place, {renamed or name: (name, record, function)}, header)


def together(
    honest: Path,
    place: Path,
    lies: Mapping[str, tuple[str, Edit | None, Edit | None]],
    header: Edit | None = None,
) -> Path:
    """Write a package of changed functions: by name, that of the honest one and two edits."""
    head, functions, records = objects(honest)
    rows: dict[str, bytes] = {}
    for renamed, (name, edit, edit_function) in lies.items():
        changed_function = _changed({**functions[name], "name": renamed}, edit_function)
        for record in records[name]:
            found = _changed({**record, "function": renamed}, edit)
            rows.update(objects_of(found, changed_function))
    folder = place / "_aot"
    (folder / "blobs").mkdir(parents=True)
    index = with_fresh_digests([*rows.items()], _changed(head, header))
    (folder / INDEX_NAME).write_bytes(index)
    for blob in (honest / "blobs").iterdir():
        if blob.stem.encode() in index:
            shutil.copy(blob, folder / "blobs")
    return folder


def objects(honest: Path) -> tuple[Any, dict[str, Any], dict[str, list[Any]]]:
    """Return the header of a package's index, its functions, and their records, as JSON."""
    return _objects((honest / INDEX_NAME).read_bytes())


def servers(honest: Path) -> dict[str, Forks]:
    """Return a server of forks for each backend; the caller closes them."""
    return {name: Forks(honest.parent / CASES, name) for name in BACKENDS}


def _changed(data: Any, edit: Edit | None) -> Any:
    copy = json.loads(json.dumps(data))
    if edit is None:
        return copy
    found = edit(copy)
    return copy if found is None else found


def _objects(data: bytes) -> tuple[Any, dict[str, Any], dict[str, list[Any]]]:
    index = Index.open(data, INDEX_NAME)
    lines = data.split(b"\n")[3 + index.row_count : -1]
    objects = [json.loads(line) for line in lines]
    functions = {each["name"]: each for each in objects if "function" not in each}
    records: dict[str, list[Any]] = {name: [] for name in functions}
    for each in objects:
        if "function" in each:
            records[each["function"]].append(each)
    header = {k: v for k, v in index.header.items() if k not in ("objects", "rows")}
    return header, functions, records


# --- the honest package ---------------------------------------------------------------------------


def _make(folder: Path) -> None:
    import jax
    import jax.numpy as jnp

    table = np.arange(16, dtype=np.float32)

    def ones(*shape: int, dtype: Any = np.float32) -> Any:
        return np.ones(shape, dtype)

    def factor(x: Any) -> Any:
        return jnp.linalg.cholesky(x @ x.T + 8 * jnp.eye(8))

    one, two = {"x": ones(16)}, {"x": ones(8), "y": ones(8)}
    plain: list[tuple[str, Callable[..., Any], dict[str, Any], dict[str, Any]]] = [
        ("double", lambda x: x * 2, one, {}),
        ("both", lambda x: {"down": x - 1, "up": x + 1}, one, {}),
        ("add", lambda x, y: x + 2 * y, two, {}),
        ("narrow", lambda x: (x * 2).astype(jnp.bfloat16), {"x": ones(8)}, {}),
        ("factor", factor, {"x": ones(8, 8)}, {}),
        ("shifted", lambda x, table: x + table, one, {"table": table}),
        ("first", lambda x, y: x * 3, {"x": ones(8), "y": ones(4)}, {}),
    ]
    cases: dict[str, Any] = {}
    taken = packages.build("taken", _second, {"x": ones(4), "y": ones(8)}, donate=["y"])
    made = [_golden(taken, _second)]
    _case(cases, "taken", _second, [(4,), (8,)])
    for name, fn, args, constants in plain:
        made.append(_golden(packages.build(name, fn, args, constants=constants), fn, constants))
        _case(cases, name, fn, [value.shape for value in args.values()], constants)
    axes = (((0, 0),),)
    padding = Padding((PaddedDim("n", 0),), ((2,), (4,)), axes, axes)
    for n in (2, 4):
        built = _golden(packages.build("rows", _rows, {"x": ones(n, 4)}), _rows)
        made.append(
            dataclasses.replace(built, function=dataclasses.replace(built.function, pad=padding))
        )
        _case(cases, f"rows@{n}", _rows, [(n, 4)])
    _case(cases, "rows@3", _rows, [(3, 4)])
    with jax.enable_x64(True):
        made.append(_golden(packages.build("wide", _rows, {"x": ones(4, dtype=np.float64)}), _rows))
    packages.write(folder, made)
    np.savez(folder / CASES, **cases)


def _rows(x: Any) -> Any:
    return x * 2 + 1


def _second(_: Any, y: Any) -> Any:
    return y + 1


def _case(
    cases: dict[str, Any],
    name: str,
    fn: Callable[..., Any],
    shapes: list[tuple[int, ...]],
    constants: Mapping[str, Any] | None = None,
) -> None:
    """Add a call of a function and what jit makes of it, in float32 where numpy lacks a dtype."""
    import jax

    chance = np.random.Generator(np.random.PCG64(0))
    given = [chance.random(shape, np.float32) for shape in shapes]
    for index, array in enumerate(given):
        cases[f"{name}/in{index}"] = array
    for index, leaf in enumerate(jax.tree.leaves(jax.jit(fn)(*given, **(constants or {})))):
        array = np.asarray(leaf)
        cases[f"{name}/out{index}"] = array.astype("f4") if array.dtype.kind == "V" else array


def _golden(
    built: packages.Built, fn: Callable[..., Any], constants: Mapping[str, Any] | None = None
) -> packages.Built:
    """Return it with golden outputs, which `verify` compares."""
    import jax

    leaves = [seeded(index, aval) for index, aval in enumerate(built.record.signature.leaves)]
    outputs = map(np.asarray, jax.tree.leaves(jax.jit(fn)(*leaves, **(constants or {}))))
    samples = {
        str(index): array.reshape(-1)[sample_indices(array.size)]
        for index, array in enumerate(outputs)
    }
    data = serialize(samples)
    blob = Blob("safetensors", sha256_hex(data), len(data))
    record = dataclasses.replace(built.record, golden=Golden((), blob))
    return dataclasses.replace(built, record=record, blobs={**built.blobs, blob.path: data})
