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
from support import packages
from support.index_fuzz import objects_of, with_fresh_digests
from support.shared import made_once, run_folder

from aotbuild.build.constant_blobs import serialize
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.golden import sample_indices, seeded
from aotbuild.format.index import INDEX_NAME, Index
from aotbuild.format.record import Blob, Golden

# From the JSON of a record, function or header to that of a lie; in place, or returned.
Edit = Callable[[Any], Any]


def base(factory: pytest.TempPathFactory) -> Path:
    """Return the `_aot` folder of the honest package: `double`, and `shifted` by a constant."""
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
    given, table = {"x": np.ones(16, np.float32)}, np.arange(16, dtype=np.float32)
    packages.write(
        folder,
        [
            _golden(packages.build("double", lambda x: x * 2, given), lambda x: x * 2),
            _golden(
                packages.build("shifted", lambda x, t: x + t, given, constants={"t": table}),
                lambda x: x + table,
            ),
        ],
    )


def _golden(built: packages.Built, fn: Callable[[Any], Any]) -> packages.Built:
    """Return it with golden outputs, which `verify` compares."""
    import jax

    (aval,) = built.record.signature.leaves
    array = np.asarray(jax.jit(fn)(seeded(0, aval)))
    data = serialize({"0": array.reshape(-1)[sample_indices(array.size)]})
    blob = Blob("safetensors", sha256_hex(data), len(data))
    record = dataclasses.replace(built.record, golden=Golden((), blob))
    return dataclasses.replace(built, record=record, blobs={**built.blobs, blob.path: data})
