"""Projects that the parts build, and one build of them in this process."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time

from aotbuild.build.events import Event, UnitDone
from aotbuild.build.pack import build_package
from aotbuild.build.project import Project, open_project
from aotbuild.toolchains.environments import make_environments
from benchmarks.models.data import BATCH, SEQUENCE, transformer_shapes
from benchmarks.places import HERE

# What would make a build another one, if the caller's shell had it set.
FOREIGN = ("AOTBUILD_", "JAX_", "PIP_", "PYTHON", "XLA_")
_BLOCKS = """
import jax, jax.numpy as jnp

def blocks(x, w, depth):
    for _ in range(depth):
        x = jax.nn.softmax(jnp.tanh(x @ w) + x, axis=-1)
        x = jnp.sort(x, axis=0)
    return x
"""
# Functions of several lengths, as packages have them.
_DEPTHS = (2, 4, 8, 16)
_NEVER = {"golden": "never"}


def write_project(root: Path, package: str, functions: dict[str, object], **modules: str) -> Path:
    """Write a project with these modules and functions; return its folder."""
    folder = root / package
    folder.mkdir(parents=True)
    for name, source in {"__init__": "", **modules}.items():
        (folder / f"{name}.py").write_text(source)
    manifest = {"version": 1, "package": package, "functions": functions}
    (root / "aot.yaml").write_text(json.dumps(manifest, indent=1))  # JSON is YAML
    return root


def write_blocks(root: Path, units: int) -> Path:
    """Write a project with so many traces and compilations, of functions short and long."""
    sizes = [8 * (number + 1) for number in range(-(-units // len(_DEPTHS)))]
    rows = [(depth, size) for size in sizes for depth in _DEPTHS][:units]
    functions: dict[str, object] = {
        f"depth{depth}": {
            "call": "blocks.model:blocks",
            "args": [{"x": "f32[batch, 64]"}, {"w": "f32[64, 64]"}],
            "kwargs": {},
            "static": {"depth": [depth]},
            "dims": {"batch": [size for other, size in rows if other == depth]},
            "verify": _NEVER,
        }
        for depth in dict.fromkeys(depth for depth, _ in rows)
    }
    return write_project(root, "blocks", functions, model=_BLOCKS)


def write_modules(root: Path, count: int) -> Path:
    """Write a project with so many functions, each in a module of its own."""
    names = [f"f{number:02}" for number in range(count)]
    functions: dict[str, object] = {
        name: {"call": f"many.{name}:f", "args": [{"x": "f32[64]"}], "verify": _NEVER}
        for name in names
    }
    sources = {name: module_source(float(number)) for number, name in enumerate(names)}
    return write_project(root, "many", functions, **sources)


def module_source(factor: float) -> str:
    """Return the module of one function."""
    return f"import jax.numpy as jnp\n\ndef f(x):\n    return jnp.tanh(x * {factor}).sum()\n"


def write_transformer(root: Path) -> Path:
    """Write a project with the transformer of the other benchmarks; its weights are arguments."""
    weights = {name: f"f32{list(shape)}" for name, shape in transformer_shapes().items()}
    tokens = f"i32[{BATCH}, {SEQUENCE}]"
    function = {
        "call": "deep.transformer:apply",
        "args": [{"weights": weights}, {"tokens": tokens}],
        "verify": _NEVER,
    }
    write_project(root, "deep", {"apply": function})
    shutil.copy(HERE / "models" / "transformer.py", root / "deep")
    return root


def opened(root: Path) -> Project:
    """Return the plan of a project, after making what compiles it ready."""
    project = open_project(root / "aot.yaml", None, lambda _: None)
    make_environments(project.plan.environment.toolchains)
    return project


@dataclass
class Built:
    """One build: seconds, CPU seconds of this process, and its results by what became of them.

    `took` are the seconds of each unit that was compiled.
    """

    seconds: float
    own_cpu: float
    counts: Counter[str] = field(default_factory=Counter)
    took: list[float] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)


def build(
    root: Path,
    folder: Path,
    store: Path | str,
    executor: str | None = None,
    jobs: int | None = None,
) -> Built:
    """Build a project into a new folder."""
    done: list[UnitDone] = []

    def listen(event: Event) -> None:
        if isinstance(event, UnitDone):
            done.append(event)

    with variables(AOTBUILD_STORE=str(store)):
        start, cpu = perf_counter(), process_time()
        project = opened(root)
        build_package(project.plan, project.sources, folder, listen, jobs, executor=executor)
        built = Built(perf_counter() - start, process_time() - cpu)
    built.names = {each.unit.name: _origin(each) for each in done}
    built.counts = Counter(map(_origin, done))
    return built


def _origin(done: UnitDone) -> str:
    if done.failure:
        return "failed"
    return "stored" if done.stored else "compiled"


@contextmanager
def variables(**values: str) -> Iterator[None]:
    """Set variables of the environment for the block, and unset what would change a build."""
    before = dict(os.environ)
    for name in [name for name in before if name.startswith(FOREIGN)]:
        del os.environ[name]
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
