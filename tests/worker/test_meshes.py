"""Functions that make their own mesh: as plain jit has them, on any devices in any order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import run
from support.forks import forked
from support.projects import MANIFEST, build, copy_project, write_project

from aotbuild.errors import BuildError

pytestmark = pytest.mark.process

# The shape and the axes of a mesh.
LINE, GRID = ((4,), ("x",)), ((2, 2), ("data", "model"))
PLAIN = (
    *("made_at_import", "made_inside", "of_context", "constrained", "old_context"),
    *("abstract_context", "jitted", "put", "gradient"),
)
OWN = "Write the axes of the function's own mesh under mesh:"
REFUSED = {
    "sets_the_mesh": "jax.jit refuses that, too: take set_mesh out of the function",
    "on_two": OWN,
    "not_explicit": OWN,
    "other_parts": OWN,
    "too_few": OWN,
    "in_the_module": "importing ",
    "reads_a_mesh": "or sets a mesh, like_run: true in the spec runs it for real.",
}
USE = """
import contextlib, json, sys
import jax, numpy as np
import aotbuild
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P
events = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *_, **__: events.append(name) if name.startswith("/jax/core/compile") else None)
library = aotbuild.load(sys.argv[1])
name, shape, axes, explicit = json.loads(sys.argv[2])
kernel = library.kernel(name)
x = np.arange(32, dtype="float32").reshape(8, 4)
k, b = np.arange(32, dtype="float32").reshape(4, 8), np.float32(2)
args, kwargs = (({"k": k}, x), {"b": b}) if name == "explicit" else ((x,), {})
types = tuple(AxisType.Explicit if axis in explicit else AxisType.Auto for axis in axes)
def mesh(order):
    grid = np.array([jax.devices()[i] for i in order], dtype=object).reshape(shape)
    return Mesh(grid, tuple(axes), axis_types=types)
found = [kernel(*args, **kwargs)]
orders = [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]] if shape else []
for order in orders:
    found.append(library.on(mesh(order)).kernel(name)(*args, **kwargs))
    first = jax.tree.leaves(found[-1])[0]
    assert [d.id for d in first.sharding._device_assignment] == order
assert events == [], events

from meshes import inside
name = "made_inside" if (renamed := name == "other_axes") else name
if name == "one":
    source = inside.one
else:
    from meshes import own
    source = getattr(own, name)
def put(value, *spec):
    return jax.device_put(value, NamedSharding(mesh(range(4)), P(*spec)))
if explicit:
    args = ({"k": put(k, None, axes[-1])}, put(x, axes[0])) if kwargs else (put(x, axes[0]),)
    kwargs = {name: put(value) for name, value in kwargs.items()}
# jax takes no other mesh inside its context's.
free = renamed or not shape
with contextlib.nullcontext() if free else jax.set_mesh(mesh(range(4))):
    expected = jax.jit(source)(*args, **kwargs)
    for result in found:
        assert jax.tree.structure(result) == jax.tree.structure(expected)
        for a, b in zip(jax.tree.leaves(result), jax.tree.leaves(expected)):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    for a, b in zip(jax.tree.leaves(found[0]), jax.tree.leaves(expected)):
        assert a.sharding.is_equivalent_to(b.sharding, a.ndim)
        assert not explicit or jax.typeof(a) == jax.typeof(b)
    if explicit:  # what comes out goes into a function under jit
        jax.block_until_ready(jax.jit(lambda t: jax.tree.map(lambda v: v * 2, t))(found[0]))
print("null")
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_project("meshes", tmp_path_factory.mktemp("meshes"))
    build(root)
    return root


def use(project: Path, name: str, *mesh: object, devices: int = 4) -> None:
    """Call a function in a fresh process on several orders of the devices; compare with jit."""
    folder = str(project / "meshes" / "_aot")
    forked(USE, folder, json.dumps([name, *mesh]), devices=devices, path=project)


@pytest.mark.parametrize("name", PLAIN)
def test_as_under_jit(project: Path, name: str) -> None:
    use(project, name, *LINE, ())


def test_a_grid(project: Path) -> None:
    use(project, "on_a_grid", *GRID, ())


def test_other_axes_than_the_manifest(project: Path) -> None:
    use(project, "other_axes", (4,), ("rows",), ())


def test_a_mesh_of_one_device(project: Path) -> None:
    use(project, "one", (), (), (), devices=1)


@pytest.mark.parametrize(
    ("name", "mesh", "axes"),
    [
        ("explicit", GRID, ("data", "model")),
        ("explicit_inside", LINE, ("x",)),
        ("half_explicit", GRID, ("data",)),
    ],
)
def test_explicit_axes(
    project: Path, name: str, mesh: tuple[object, ...], axes: tuple[str, ...]
) -> None:
    use(project, name, *mesh, axes)


def test_what_cannot_be_compiled(tmp_path: Path) -> None:
    root = copy_project("meshes", tmp_path)
    (root / "refused.yaml").replace(root / MANIFEST)
    with pytest.raises(BuildError) as caught:
        build(root)
    text = str(caught.value)
    for name, words in REFUSED.items():
        start = text.index(f"{name}() for cpu")
        assert words in text[start : start + 1500], text


def test_a_note_where_the_manifest_has_no_mesh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has one device then; where a program has four, it computes another number."""
    code = (
        "import jax, numpy as np\nfrom jax.sharding import Mesh, PartitionSpec as P\n"
        "MESH = Mesh(np.array(jax.devices()), ('x',))\n"
        "def plain(x): return x * 2\n"
        "@jax.shard_map(mesh=MESH, in_specs=P('x'), out_specs=P())\n"
        "def mean(x): return jax.lax.pmean(x, 'x')\n"
    )
    text = "version: 1\npackage: proj\ntargets: [cpu]\nfunctions:\n" + "".join(
        f'  {name}: {{call: "proj.m:{name}", args: [x: "f32[8]"]}}\n' for name in ("mean", "plain")
    )
    monkeypatch.chdir(write_project(tmp_path / "here", text, m=code))
    lines = run("build", "--out", tmp_path / "_aot").stdout.splitlines()
    (note,) = (line for line in lines if "over a mesh" in line)
    assert "proj.m:mean computes over a mesh that it has made, and its entry has no mesh" in note
