"""What another trace of a job says: its program, and what the modules around its function keep."""

from __future__ import annotations

import ast
import types
from collections import deque
from pathlib import Path
from typing import Any

import jax
import numpy as np

from aotbuild.build.replies import TracedAgain
from aotbuild.format.canonical import sha256_hex
from aotbuild.platforms.base import machine
from aotbuild.worker.purity.described import random_state
from aotbuild.worker.purity.normalize import array_digest
from aotbuild.worker.purity.snapshot import project_modules
from aotbuild.worker.purity.values import PLAIN, children, instance_dict, is_a
from aotbuild.worker.traced import Traced

# Limits of the search for variables: values, and how deep they are nested.
_MOST_VALUES = 20_000
_DEEPEST = 8


def traced_again(traced: Traced) -> TracedAgain:
    """Return what a build that traces again is told of a trace."""
    variables, here = _variables(traced.job.call), machine().to_json()
    return TracedAgain(trace=traced.program, variables=variables, machine=here)


def _variables(reference: str) -> dict[str, tuple[str, str]]:
    """Return the values that modules of the project keep, by name: a digest, and its source line.

    `reference` is the function's `module:qualname`. A line is `file:number in <module>`, or "".
    """
    found: dict[str, tuple[str, str]] = {}
    seen: set[int] = set()
    waiting: deque[tuple[str, str, Any, int]] = deque()
    for name, module in project_modules(reference.partition(":")[0]).items():
        lines = _lines(module)
        for variable, value in sorted(instance_dict(module).items()):
            if not variable.startswith("__"):
                waiting.append((f"{name}.{variable}", lines.get(variable, ""), value, 0))
    while waiting and len(found) < _MOST_VALUES:
        place, line, value, depth = waiting.popleft()
        if is_a(value, (types.ModuleType, type, types.FunctionType)):
            continue
        digest = _of_variable(value)
        if digest is not None:
            found.setdefault(place, (digest, line))
        elif id(value) not in seen and depth < _DEEPEST:
            seen.add(id(value))
            for child in _below(value):
                waiting.append((f"{place}{child.suffix}", line, child.value, depth + 1))
    return found


def _below(value: Any) -> list[Any]:
    try:
        return list(children(value))
    except Exception:  # noqa: BLE001 (the user's class may raise on any access)
        return []


def _of_variable(value: Any) -> str | None:
    if type(value) in PLAIN:
        return sha256_hex(f"{type(value).__name__} {value!r}".encode())
    if is_a(value, (np.ndarray, np.generic, jax.Array)):
        return sha256_hex(repr(array_digest(value)).encode())
    return random_state(value)


def _lines(module: types.ModuleType) -> dict[str, str]:
    """Return where a module first assigns each of its variables."""
    file = str(instance_dict(module).get("__file__") or "")
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, str] = {}
    for statement in tree.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.setdefault(node.id, f"{file}:{statement.lineno} in <module>")
    return found
