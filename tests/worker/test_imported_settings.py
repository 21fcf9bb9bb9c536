"""Settings of jax that importing a module changes decide what is compiled, in any order of jobs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.projects import results_of, write_project

from aotbuild.build.progress import UnitDone

pytestmark = pytest.mark.process

DOUBLE = "def f(x):\n    return x * 2\n"
MODULES = {
    "wide": f"import jax\njax.config.update('jax_enable_x64', True)\n{DOUBLE}",
    "precise": "import jax\njax.config.update('jax_default_matmul_precision', 'highest')\n"
    "jax.config.update('jax_log_compiles', True)\n"
    f"import proj.wide\n{DOUBLE}",
    "plain": DOUBLE,
    "quiet": f"import jax\njax.config.update('jax_log_compiles', True)\n{DOUBLE}",
    "lazy": "def f(x):\n    import proj.late\n    return x\n",
    "late": f"import jax\njax.config.update('jax_enable_x64', True)\n{DOUBLE}",
    "said": f"import os\nos.environ['JAX_ENABLE_X64'] = 'True'\nimport jax.numpy as jnp\n{DOUBLE}",
    "chooses": f"import os\nos.environ.setdefault('JAX_PLATFORMS', 'cpu')\nimport jax\n{DOUBLE}",
    "uses": f"import library\n{DOUBLE}",
    "unknown": f"import os\nos.environ['JAX_OF_MINE'] = '1'\n{DOUBLE}",
    "flags": "import os\nos.environ['XLA_FLAGS'] = os.environ.get('XLA_FLAGS', '') + "
    "' --xla_force_host_platform_device_count=8 --xla_cpu_enable_fast_math=true'\n" + DOUBLE,
}
NOTES = {
    "wide": {"importing proj.wide set jax_enable_x64=true: compiled with it"},
    "precise": {
        "importing proj.precise set jax_default_matmul_precision=highest: compiled with it",
        "importing proj.precise set jax_enable_x64=true: compiled with it",
    },
    "plain": set(),
    "quiet": set(),
    "late": {"importing proj.late set jax_enable_x64=true: compiled with it"},
}
ORDERS = (
    ("plain", "wide", "precise", "quiet"),
    pytest.param(("quiet", "precise", "wide", "plain"), marks=pytest.mark.any_jax),
)


def build(folder: Path, names: tuple[str, ...], config: str = "") -> dict[str, UnitDone]:
    """Build functions of these modules, one signature each of one and of two elements."""
    entries = "".join(
        f"  {name}: {{call: 'proj.{name}:f', args: [x: 'f32[n]'], dims: {{n: [1, 2]}}{config}}}\n"
        for name in names
    )
    root = write_project(
        folder / "project",
        f"version: 1\npackage: proj\ntargets: [cpu]\nfunctions:\n{entries}",
        **MODULES,
    )
    return results_of(root)


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_a_function_has_the_settings_of_what_it_imports(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    for name, done in build(tmp_path, order).items():
        assert done.failure is None, done.failure
        assert done.record is not None
        is_wide = name in ("wide", "precise")
        config = done.record.provenance["config"]
        assert done.record.requires.x64 == config["jax_enable_x64"] == is_wide
        precision = "highest" if name == "precise" else None
        assert config["jax_default_matmul_precision"] == precision
        assert {note for note in done.notes if "importing" in note} == NOTES[name]


@pytest.mark.any_jax
def test_a_variable_that_a_module_sets_for_jax_is_refused(tmp_path: Path) -> None:
    """Unless jax has that setting already."""
    done = build(tmp_path / "one", ("said", "chooses", "unknown", "plain"))
    failure = done.pop("said").failure
    assert failure is not None
    assert "importing its modules sets JAX_ENABLE_X64=True, which this build has" in failure.message
    assert all(each.record for each in done.values())
    said = build(tmp_path / "two", ("said",), ", config: {jax_enable_x64: true}")["said"]
    assert said.record is not None
    assert said.record.requires.x64


@pytest.mark.any_jax
def test_flags_of_xla_that_a_module_sets_are_noted(tmp_path: Path) -> None:
    done = build(tmp_path, ("flags", "plain"))
    (note,) = (note for note in done["flags"].notes if "XLA_FLAGS" in note)
    assert "importing proj.flags sets XLA_FLAGS to" in note
    assert "--xla_cpu_enable_fast_math=true: compiled without them" in note
    assert not [note for note in done["plain"].notes if "XLA_FLAGS" in note]


@pytest.mark.any_jax
def test_what_tracing_imports_is_refused_and_does_not_reach_others(tmp_path: Path) -> None:
    done = build(tmp_path, ("lazy", "late", "plain"))
    failure = done["lazy"].failure
    assert failure is not None
    assert "tracing or calling it changed jax's settings: jax_enable_x64 " in failure.message
    for name in ("late", "plain"):
        record = done[name].record
        assert record is not None
        assert record.requires.x64 == (name == "late")
        assert {note for note in done[name].notes if "importing" in note} == NOTES[name]


@pytest.mark.any_jax
@pytest.mark.parametrize("is_written", [True, False])
def test_libraries_get_bytecode_where_python_writes_it_and_the_project_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """uv 0.13.9 installs none, and importing flax without it takes three times as long."""
    library = tmp_path / "site-packages" / "library"
    library.mkdir(parents=True)
    (library / "__init__.py").touch()
    monkeypatch.syspath_prepend(library.parent)
    monkeypatch.setattr(sys, "dont_write_bytecode", not is_written)
    assert build(tmp_path, ("uses",))["uses"].failure is None
    written = {path.parents[1] for path in tmp_path.rglob("*.pyc")}
    assert written == ({library} if is_written else set())
