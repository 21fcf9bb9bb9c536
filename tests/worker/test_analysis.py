"""What a record says of XLA's estimates."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from aotbuild.worker.analysis import summary


def stated(**cost: Any) -> dict[str, Any]:
    costs = {name.replace("_", " "): value for name, value in cost.items()}
    memory = SimpleNamespace(argument_size_in_bytes=12, peak_memory_in_bytes=24)
    compiled = SimpleNamespace(cost_analysis=lambda: costs, memory_analysis=lambda: memory)
    return summary(compiled, None, 1, with_calls=False)


def test_what_is_known() -> None:
    assert stated(flops=3.0, bytes_accessed=0.0) == {
        "flops": 3.0,
        "bytes_accessed": 0.0,
        "argument_bytes": 12,
        "peak_bytes": 24,
    }


@pytest.mark.parametrize("value", [-1.0, -2, math.nan, math.inf, None])
def test_no_number_that_only_says_that_it_is_not_known(value: float | None) -> None:
    found = stated(flops=value, bytes_accessed=value)
    assert (found["flops"], found["bytes_accessed"]) == (None, None)
