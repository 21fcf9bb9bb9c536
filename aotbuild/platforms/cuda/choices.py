"""What XLA chose in an optimized HLO module for an NVIDIA GPU, read from the module's text.

Without the GPU, XLA cannot measure. What it takes instead is wrong or slow for some instructions:
Triton matmuls with the smallest tiles, and cuDNN's convolutions with algorithm -1, which cuDNN
refuses when they run. docs/explanation/targets-facts.md says what was tried on which version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?(?P<name>\S+) = (?P<shape>.*?) (?P<opcode>[\w-]+)\(")
_COMPUTATION = re.compile(r"(?:ENTRY )?%?(\S+) \(.*\{$")
_CALLS = re.compile(r"\bcalls=%?([^\s,}]+)")
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
_SIZES = re.compile(r"\[([0-9,]*)\]")
_CONFIG = "backend_config="
_DOTS = ("dot", "scaled-dot", "ragged-dot")
# XLA sorts with CUB from this size on where it has the device (xla/service/gpu, SortRewriter).
_LARGE_SORT = 16385


@dataclass(frozen=True)
class Choices:
    """The instructions that XLA has several ways to run, each as its name and shape."""

    library_matmuls: tuple[str, ...] = ()
    triton_matmuls: tuple[str, ...] = ()
    convolutions: tuple[str, ...] = ()
    convolutions_without_algorithm: tuple[str, ...] = ()
    large_sorts: tuple[str, ...] = ()

    def to_json(self) -> dict[str, int]:
        """Return how many there are of each kind, where there are any."""
        return {name: len(found) for name, found in vars(self).items() if found}


def choices(hlo: str) -> Choices:
    """Return the choices in the text of an optimized HLO module."""
    found: dict[str, list[str]] = {name: [] for name in Choices.__dataclass_fields__}
    with_dots = _computations_with_dots(hlo)
    for line in hlo.splitlines():
        if instruction := _INSTRUCTION.match(line):
            for kind in _kinds(instruction["opcode"], instruction["shape"], line, with_dots):
                found[kind].append(f"%{instruction['name']} = {instruction['shape']}")
    return Choices(**{name: tuple(names) for name, names in found.items()})


def _kinds(opcode: str, shape: str, line: str, with_dots: frozenset[str]) -> Iterator[str]:
    if opcode == "custom-call":
        target = _TARGET.search(line)
        name = target[1] if target else ""
        if name.startswith("__cublas$") and "triangularSolve" not in name:
            yield "library_matmuls"
        elif name.startswith("__cudnn$conv"):
            yield "convolutions"
            algorithm = _config(line).get("cudnn_conv_backend_config", {}).get("algorithm", {})
            if int(algorithm.get("algo_id", 0 if algorithm else -1)) < 0:
                yield "convolutions_without_algorithm"
    elif opcode == "fusion":
        kind = _config(line).get("fusion_backend_config", {}).get("kind", "")
        calls = _CALLS.search(line)
        if kind.startswith("__triton") and calls and calls[1] in with_dots:
            yield "triton_matmuls"
    elif opcode == "sort":
        sizes = [int(size) for size in _SIZES.findall(shape)[0].split(",") if size]
        if max(sizes, default=0) == prod(sizes) >= _LARGE_SORT:
            yield "large_sorts"


def _config(line: str) -> dict[str, Any]:
    """Return an instruction's backend_config where it is JSON; typed custom calls have MLIR."""
    at = line.find(_CONFIG)
    if at < 0:
        return {}
    try:
        found, _ = json.JSONDecoder().raw_decode(line, at + len(_CONFIG))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _computations_with_dots(hlo: str) -> frozenset[str]:
    """Return the names of computations with a matrix product, also in what they call."""
    calls: dict[str, set[str]] = {}
    found, name = set(), ""
    for line in hlo.splitlines():
        if header := _COMPUTATION.match(line):
            name = header[1]
            calls[name] = set()
        elif name and (instruction := _INSTRUCTION.match(line)):
            if instruction["opcode"] in _DOTS:
                found.add(name)
            calls[name].update(_CALLS.findall(line))
    while more := {name for name, inner in calls.items() if inner & found} - found:
        found |= more
    return frozenset(found)
