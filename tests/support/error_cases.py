"""What the producers of pinned error texts share. See test_error_texts.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import aotbuild
from aotbuild.errors import AotbuildError
from aotbuild.runtime.library import Library
from support.cli import Result, invoke
from support.packages import Built, build, write

X = np.ones((1, 16), "float32")


@dataclass(frozen=True)
class Place:
    """Where a case may write, and what puts back what it changes."""

    root: Path
    patch: pytest.MonkeyPatch


# Makes one error, and returns all that a user reads of it.
Case = Callable[[Place], str]


def collector() -> tuple[dict[str, Case], Callable[[Case], Case]]:
    """Return a dict of cases by name, and the decorator that puts them there."""
    cases: dict[str, Case] = {}

    def case(produce: Case) -> Case:
        cases[produce.__name__] = produce
        return produce

    return cases, case


def raised(call: Callable[[], object]) -> str:
    """Return the text of the error that a call ends in."""
    with pytest.raises(AotbuildError) as caught:
        call()
    return str(caught.value)


def command(place: Place, folder: Path, code: int, *args: str) -> Result:
    """Run a command in a folder; it must end with this exit code."""
    place.patch.chdir(folder)
    result = invoke(*args)
    assert result.exit_code == code, result.output
    return result


def score(x: Any, activation: str = "relu") -> Any:
    return getattr(jax.nn, activation)(x) * 2


def scored(batch: int = 1, activation: str = "relu") -> Built:
    x = np.ones((batch, 16), "float32")
    statics = {"activation": activation}
    order = ("x", "activation")
    made = build(
        "score", score, {"x": x}, statics=statics, call="proj.model:score", positional=order
    )
    label = f"score(batch={batch}, activation={activation!r})"
    provenance = {"label": label, "dims": {"batch": batch}}
    return replace(made, record=replace(made.record, provenance=provenance))


def library(place: Place, *built: Built) -> Library:
    return aotbuild.load(write(place.root, built, package="proj"))
