"""Errors pass between processes: they come back with their message and their facts."""

from __future__ import annotations

import pickle

import pytest

from aotbuild import errors

ERRORS = [
    errors.SignatureMismatch("f", "no signature fits", ["x: expected f32[2]"], "Build again."),
    errors.InvalidArgument("f", "x", "an array", "a str", "Convert it."),
    errors.UnknownFunction("demo", "g", ["f"]),
    errors.MissingJax("demo", "0.10.2"),
    errors.CompanionMismatch("demo", "demo-aot-cuda", "one", "another"),
    errors.ManifestError([errors.Problem("aot.yaml", 1, 2, "functions", "is missing")]),
    errors.SourcesEdited(["a.py", "b.py"]),
    errors.AotbuildError("plain"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_can_be_pickled(error: errors.AotbuildError) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)
    assert getattr(found, "name", None) == getattr(error, "name", None)
