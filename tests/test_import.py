"""`import aotbuild` is free: it loads none of the heavy packages."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("jax", "jaxlib", "numpy", "yaml", "pydantic", "hatchling", "rich", "packaging")
SCRIPT = "import sys; {statement}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"


def loaded_by(statement: str) -> set[str]:
    script = SCRIPT.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.process
def test_importing_loads_nothing_heavy() -> None:
    assert loaded_by("import aotbuild") & set(HEAVY) == set()


@pytest.mark.process
def test_the_check_can_fail() -> None:
    assert "yaml" in loaded_by("import aotbuild, yaml")


def test_public_names() -> None:
    import aotbuild

    assert aotbuild.__all__ == [
        "DeviceArray",
        "__version__",
        "errors",
        "guard",
        "load",
        "precompiled",
    ]
    assert all(hasattr(aotbuild, name) for name in aotbuild.__all__)


@pytest.mark.process
def test_a_build_imports_no_runtime_and_names_are_listed_all_the_same() -> None:
    code = (
        "import sys, aotbuild.build.pack; assert 'aotbuild.runtime.library' not in sys.modules;"
        "assert {'load', 'guard'} <= {*dir(aotbuild)}; aotbuild.load"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
