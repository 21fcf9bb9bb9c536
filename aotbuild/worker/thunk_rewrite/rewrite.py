"""Shrink an executable, and keep it only if XLA still takes it."""

from __future__ import annotations

import logging

import jax
from jaxlib.version import __version__ as jaxlib_version

from aotbuild.spec.target import Target
from aotbuild.worker import private as jax_private
from aotbuild.worker.thunk_rewrite.grouping import with_groups
from aotbuild.worker.thunk_rewrite.program import fusions, lean

# Part of the store's key: other bytes come of the same compilation when this changes.
VERSION = 4
# XLA runs a program of fewer in the thread that calls it, where others only start one, and counts
# them each time it loads a program: cheap_computation_ in xla/pjrt/cpu/cpu_client.cc.
_FEW_OPERATIONS = 1000
# Of the fusions that compute most, how many keep their program at most for that count.
_MOST_KEPT = 64
_LOG = logging.getLogger("aotbuild")


def checked_lean(data: bytes, target: Target) -> bytes:
    """Return an executable that loads faster and runs the same code, or `data` as it is.

    Executables for other platforms, for several devices and of other jaxlibs stay as they are.
    """
    if target.platform != "cpu" or target.devices != 1:
        return data
    grouped = with_groups(data, jaxlib_version)
    smaller = lean(grouped, jaxlib_version)
    if smaller is None:
        return data
    try:
        return _as_busy(grouped, smaller)
    except Exception as err:  # noqa: BLE001 (XLA raises many types; the whole one is as good)
        _LOG.warning("%s: XLA does not load the shortened program, kept whole: %s", target, err)
        return data


def _as_busy(data: bytes, smaller: bytes) -> bytes:
    """Return a shorter program that XLA starts as it does the whole one; `data` if there is none.

    Where it would not, some fusions keep their program, so that their operations are counted.
    """
    few = _is_few(data)
    if _is_few(smaller) == few:
        return smaller
    candidates, kept = fusions(data), 1
    while kept < min(2 * len(candidates), _MOST_KEPT):
        longer = lean(data, jaxlib_version, candidates[:kept])
        if longer is not None and _is_few(longer) == few:
            return longer
        kept *= 2
    return data


def _is_few(data: bytes) -> bool:
    # Loading runs nothing of it, so the level of its instructions does not matter.
    executable = jax_private.load_executable(data, jax.devices("cpu")[0])
    return jax_private.operations(executable) < _FEW_OPERATIONS
