"""Settings of jax that importing a module changes decide what is compiled, in any order of jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.projects import MANIFEST, write_project

from aotbuild.build.events import UnitDone, ignore
from aotbuild.build.plan import make_plan
from aotbuild.build.run_units import run_units
from aotbuild.build.sources import find_sources
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.toolchain import probe

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
    "said_alone": f"import os\nos.environ.setdefault('JAX_DEFAULT_PRNG_IMPL', 'rbg')\n{DOUBLE}",
    "said_late": f"import os, jax\nos.environ['JAX_ENABLE_X64'] = '1'\n{DOUBLE}",
    "overruled": "import os\nos.environ['JAX_ENABLE_X64'] = '1'\nimport jax\n"
    f"jax.config.update('jax_enable_x64', False)\n{DOUBLE}",
    "unknown": "import os\nos.environ.update(JAX_OF_MINE='1', JAX_NUMPY_RANK_PROMOTION='maybe')\n"
    f"{DOUBLE}",
    "asks": "import os, jax\nINTERPRET = os.environ.get('JAX_PLATFORMS') == 'cpu'\n" + DOUBLE,
    "chooses": f"import os\nos.environ.setdefault('JAX_PLATFORMS', 'cpu')\nimport jax\n{DOUBLE}",
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
    ("precise", "plain", "wide", "quiet"),
    ("quiet", "wide", "precise", "plain"),
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
    manifest = load_manifest(root / MANIFEST)
    blobs = folder / "blobs"
    blobs.mkdir()
    plan = make_plan(manifest, probe())
    done = run_units(plan, find_sources(root, manifest.package), blobs, ignore)
    return {result.unit.name: result for result in done}


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


# Each with the options of jax that a process has which imports the module.
VARIABLES: dict[str, dict[str, object]] = {
    "said": {"jax_enable_x64": True},
    "said_alone": {"jax_default_prng_impl": "rbg"},
    "said_late": {},
    "overruled": {},
    "unknown": {},
    "plain": {},
}


@pytest.mark.parametrize("order", [(*VARIABLES,), (*reversed(VARIABLES),)], ids=["there", "back"])
def test_variables_that_a_module_sets_before_it_imports_jax(
    tmp_path: Path, order: tuple[str, ...]
) -> None:
    usual = {"jax_enable_x64": False, "jax_default_prng_impl": "threefry2x32"}
    for name, done in build(tmp_path, order).items():
        assert done.record is not None, done.failure
        config = done.record.provenance["config"]
        assert {option: config[option] for option in usual} == usual | VARIABLES[name], name
        words: dict[object, str] = {True: "true"}
        notes = {
            f"importing proj.{name} set {option}={words.get(value, value)}: compiled with it"
            for option, value in VARIABLES[name].items()
        }
        assert {note for note in done.notes if "importing" in note} == notes


def test_flags_of_xla_that_a_module_sets_are_told(tmp_path: Path) -> None:
    done = build(tmp_path, ("flags", "plain"))
    notes = [note for note in done["flags"].notes if "XLA_FLAGS" in note]
    assert not [note for note in done["plain"].notes if "XLA_FLAGS" in note]
    says = "mesh: says how many"
    assert notes == [
        "importing proj.flags sets XLA_FLAGS: compiled without --xla_cpu_enable_fast_math=true",
        f"importing proj.flags sets XLA_FLAGS to have 8 CPU devices; the compiler has 1: {says}",
    ]


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


def test_the_manifest_may_say_the_same(tmp_path: Path) -> None:
    done = build(tmp_path, ("wide",), ", config: {jax_enable_x64: true}")["wide"]
    assert done.failure is None
    assert not [note for note in done.notes if "importing" in note]
