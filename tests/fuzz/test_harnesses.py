"""Each harness takes its corpus, and every input that once failed; atheris need not be there."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HARNESSES = sorted(HERE.glob("fuzz_*.py"))
NAMES = [path.stem.removeprefix("fuzz_") for path in HARNESSES]
INPUTS = sorted(
    (name, path)
    for name in NAMES
    for kind in ("corpus", "findings")
    for path in (HERE / kind / name).glob("*")
)

# Importing jax's C++ library, and what else harnesses need, takes a second of CPU time.
pytestmark = pytest.mark.fuzz


def _stand_in() -> types.ModuleType:
    """Return what harnesses use of atheris when nothing is fuzzed."""
    found = types.ModuleType("atheris")
    found.instrument_imports = lambda **_: contextlib.nullcontext()  # type: ignore[attr-defined]
    return found


@pytest.fixture(scope="module")
def harness() -> Callable[[str], Callable[[bytes], None]]:
    """Import harnesses, each once, without instrumentation."""
    known: dict[str, Callable[[bytes], None]] = {}

    def found(name: str) -> Callable[[bytes], None]:
        if name not in known:
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(sys.modules, "atheris", _stand_in())
                spec = importlib.util.spec_from_file_location(name, HERE / f"fuzz_{name}.py")
                assert spec
                assert spec.loader
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
            known[name] = module.TestOneInput
        return known[name]

    return found


@pytest.mark.parametrize(
    ("name", "path"),
    INPUTS,
    ids=[f"{name}-{path.parent.parent.name}-{path.name}" for name, path in INPUTS],
)
def test_input(name: str, path: Path, harness: Callable[[str], Callable[[bytes], None]]) -> None:
    harness(name)(path.read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_short_inputs(name: str, harness: Callable[[str], Callable[[bytes], None]]) -> None:
    take = harness(name)
    for data in (b"", b"\0", b"{}", b"[]", b"\xff" * 9, b"\n", b"-" * 5000, b"[" * 5000):
        take(data)
