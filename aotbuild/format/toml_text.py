"""TOML that others wrote: one error for all that is none."""

from __future__ import annotations

import tomllib
from typing import Any


def read_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML document; ValueError for anything else.

    `tomllib` alone raises RecursionError for deep nesting, and lets through what Python says of a
    number with thousands of digits.
    """
    try:
        return tomllib.loads(text)
    except RecursionError as err:
        msg = "it is nested too deep"
        raise ValueError(msg) from err
