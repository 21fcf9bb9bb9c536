"""Fingerprints are equal in all processes: any hash seed, order of imports, folder and line."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support import static_model
from support.processes import fresh

pytestmark = pytest.mark.process

CODE = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
import static_model
import jax, jax.numpy as jnp
from aotbuild.format.identity import Fingerprinter

rate = 0.5
values = {
    **static_model.values(),
    "jit": jax.jit(lambda x: x * rate, static_argnums=0),
    "custom": jax.custom_jvp(lambda x: x * rate),
    "relu": [jax.nn.relu, jnp.tanh, jnp.add],
    "initializer": jax.nn.initializers.lecun_normal(),
    "array": jnp.arange(3.0),
    "treedef": jax.tree.structure({"b": 1, "a": (2, None)}),
    "sharding": jax.sharding.SingleDeviceSharding(jax.devices()[-1]),
}
maker = Fingerprinter()
print(json.dumps({name: maker.digest(values[name]) for name in ORDER(values)}))
"""


def digests(
    folder: Path, *imports: str, lines: int = 0, order: str = "list", **options: Any
) -> Any:
    """Return the digests of a process that imports the model from this folder."""
    folder.mkdir(parents=True)
    shutil.copy(static_model.__file__, folder / "static_model.py")
    model = folder / "static_model.py"
    model.write_text("#\n" * lines + model.read_text())
    return fresh(CODE.replace("ORDER", order), *imports, path=folder, **options)


def test_processes_agree(tmp_path: Path) -> None:
    first = digests(tmp_path / "one", PYTHONHASHSEED="0")
    second = digests(
        *(tmp_path / "another" / "place", "decimal", "jax.scipy.special", "static_model"),
        lines=40,
        order="reversed",
        devices=4,
        PYTHONHASHSEED="123",
    )
    third = digests(tmp_path / "three", "unittest.mock", order="sorted", PYTHONHASHSEED="random")
    assert first == second == third
    assert len(set(first.values())) == len(first) - 1  # a ring, and the same in use
