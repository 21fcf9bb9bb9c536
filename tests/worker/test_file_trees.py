"""Recorded trees in a manifest: described in one process, made by a worker, called in a third."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.processes import fresh
from support.projects import build, failed_units, write_project

from aotbuild.format.tree_file import DescribedTree
from aotbuild.record.trees_file import TREES_FILE, add_trees, read_trees

pytestmark = pytest.mark.process

PYPROJECT = """
[project]
name = "proj"
version = "1.0"
dependencies = ["equinox", "flax", "optax"]
"""
STATES = """
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen, nnx
from flax.training.train_state import TrainState


class Net(linen.Module):
    width: int = 3

    @linen.compact
    def __call__(self, x):
        return linen.Dense(self.width, kernel_init=linen.initializers.ones)(x)


NET = Net()
TX = optax.adam(1e-2)


class Schedules:
    slow = optax.sgd(optax.cosine_decay_schedule(0.1, 10))


def train_state(net, tx):
    params = net.init(jax.random.key(0), jnp.ones((1, 2)))["params"]
    return TrainState.create(apply_fn=net.apply, params=params, tx=tx)


class Layers(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(2, 3, rngs=rngs)
        self.drop = nnx.Dropout(0.5, deterministic=True, rngs=rngs)
        self.again = self.first

    def __call__(self, x):
        return self.drop(self.first(x))


@dataclass
class System:
    q: Any
    sizes: Any
    step: Any


jax.tree_util.register_dataclass(System, ["q"], ["sizes", "step"])


class Point(NamedTuple):
    x: Any
    rest: Any


@dataclass(frozen=True)
class Sizes:
    links: int
    names: frozenset
    weights: Any = None

    def __hash__(self):
        return hash(self.links)

    def __eq__(self, other):
        return isinstance(other, Sizes) and self.links == other.links


def stepper(dt):
    def step(q, scale=2.0):
        return q + scale * dt

    return step


def arguments():
    model = Layers(nnx.Rngs(0))
    graphdef, state = nnx.split(Layers(nnx.Rngs(1)))
    tx = optax.chain(optax.clip(1.0), optax.adamw(optax.cosine_decay_schedule(1e-3, 100)))
    params = {"w": jnp.ones((2, 3))}
    local = Net(width=4)
    sizes = Sizes(2, frozenset({"b", "a"}))
    return {
        "named": train_state(NET, TX),
        "class_attribute": train_state(NET, Schedules.slow),
        "local": train_state(local, tx),
        "graphdef": graphdef,
        "nnx_state": state,
        "model": model,
        "optimizer": nnx.Optimizer(model, tx, wrt=nnx.Param),
        "chain": tx.init(params),
        "eqx_params": eqx.filter(eqx.nn.MLP(2, 3, 4, 1, key=jax.random.key(0)), eqx.is_array),
        "eqx_model": eqx.nn.MLP(2, 3, 4, 1, key=jax.random.key(0)),
        "system": System(jnp.ones(2), sizes, stepper(jnp.float32(0.5))),
        "empty": Point(None, [(), {}, jnp.ones(2), {(1, "n"): 1.5, (0, "m"): None}]),
        "key": {"key": jax.random.key(1), "bits": np.zeros(2, np.uint8)},
    }


WRAPS = {"eqx_model": "filter", "model": "nnx", "optimizer": "nnx"}
"""
MODEL = """
import equinox as eqx
import jax
import jax.numpy as jnp
from flax import nnx


def step(a0, x):
    def loss(params):
        return jnp.mean(a0.apply_fn({"params": params}, x) ** 2)

    return a0.apply_gradients(grads=jax.grad(loss)(a0.params))


def split(a0, a1, x):
    return nnx.merge(a0, a1)(x)


@nnx.jit
def train(a0, a1, x):
    grads = nnx.grad(lambda model: jnp.mean(model(x) ** 2))(a0)
    a1.update(a0, grads)
    return jnp.mean(a0(x))


def adds(a0, x):
    return jax.tree.map(lambda leaf: leaf + 1, a0), x


def sums(a0, x):
    return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(a0)) + x.sum()


@eqx.filter_jit
def infer(a0, x):
    return jax.vmap(a0)(x)


def moved(a0, x):
    return a0.step(a0.q) * a0.sizes.links + x[0]


def drawn(a0, x):
    return jax.random.normal(a0["key"], (3,)) + a0["bits"].sum() + x.sum()
"""
# The function in `model`, and the recorded trees of its arguments, the last of which is `x`.
FUNCTIONS = {
    "named": ("step", "named"),
    "class_attribute": ("step", "class_attribute"),
    "local": ("step", "local"),
    "split": ("split", "graphdef", "nnx_state"),
    "train": ("train", "model", "optimizer"),
    "chain": ("adds", "chain"),
    "eqx_params": ("sums", "eqx_params"),
    "infer": ("infer", "eqx_model"),
    "moved": ("moved", "system"),
    "empty": ("sums", "empty"),
    "drawn": ("drawn", "key"),
}
MANIFEST = """
version: 1
package: proj
trees: {shared: {file: aot.trees.json, name: class_attribute}}
defaults: {verify: {golden: never}}
functions:
"""


def manifest() -> str:
    lines = []
    for name, (function, *trees) in FUNCTIONS.items():
        specs = [f"a{i}: {{file: {TREES_FILE}, name: {tree}}}" for i, tree in enumerate(trees)]
        if name == "class_attribute":
            specs = ["a0: {tree: shared}"]
        args = ", ".join([*specs, 'x: "f32[n,2]"'])
        lines.append(f'  {name}: {{call: "proj.model:{function}", args: [{args}], dims: {{n: 1}}}}')
    return MANIFEST + "\n".join(lines) + "\n"


RECORD = """
import json, sys
from pathlib import Path
import jax
import numpy as np
from flax import nnx
from proj import states
from aotbuild.record.trees_file import add_trees, tree_entry
from aotbuild.format.wrap import FilterJit, NnxJit
from aotbuild.format.tree import register_markers
from aotbuild.record.recording import RecordedArgument
from aotbuild.record.trees import describe_argument

register_markers(jax.tree_util.register_pytree_node)
flatten = jax.tree_util.tree_flatten
wraps = {
    "filter": FilterJit(flatten, lambda x: isinstance(x, (jax.Array, np.ndarray, np.generic))),
    "nnx": NnxJit(flatten, lambda x: isinstance(x, nnx.Variable)),
    "": None,
}
problems = {}
for name, value in states.arguments().items():
    tree, leaves, problem = describe_argument(value, wraps[states.WRAPS.get(name, "")])
    problems[name] = problem
    if not problem:
        add_trees(Path(sys.argv[1]), {name: tree_entry(RecordedArgument(name, tree, leaves))})
print(json.dumps({name: problem for name, problem in problems.items() if problem}))
"""
CALL = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
from jax import monitoring
import aotbuild
from proj import model, states

functions, made, other = json.loads(sys.argv[1]), states.arguments(), states.arguments()
lib = aotbuild.load("proj")
x = jnp.ones((1, 2))
compiled = []
monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: compiled.append(event) if "compile" in event else None
)
found = {}
for name, (_, *trees) in functions.items():
    args = [made[tree] for tree in trees]
    found[name] = getattr(lib, name)(*args, x), args
count = len(compiled)

def numbers(tree):
    for leaf in jax.tree.leaves(tree):
        is_key = jnp.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key)
        if is_key or isinstance(leaf, jax.Array | np.ndarray | float | int):
            yield np.asarray(jax.random.key_data(leaf) if is_key else leaf)

different = []
for name, (function, *trees) in functions.items():
    args = [other[tree] for tree in trees]
    wanted = getattr(model, function)(*args, x), args
    pairs = zip(numbers(found[name]), numbers(wanted), strict=True)
    if not all(np.allclose(*pair, rtol=1e-4, atol=1e-5) for pair in pairs):
        different.append(name)
print(json.dumps([different, count]))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("trees") / "project"
    write_project(root, manifest(), states=STATES, model=MODEL)
    (root / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    assert fresh(RECORD, str(root / TREES_FILE), path=root) == {}
    build(root)
    return root


def test_calls_with_a_program_s_own_trees_compile_nothing(project: Path) -> None:
    different, compiled = fresh(CALL, json.dumps(FUNCTIONS), path=project)
    assert (different, compiled) == ([], 0)


def test_the_file_is_one_that_people_can_read_and_compare(project: Path, tmp_path: Path) -> None:
    text = (project / TREES_FILE).read_text(encoding="utf-8")
    trees = read_trees(project / TREES_FILE)
    assert max(map(len, text.splitlines())) < 120
    assert not add_trees(project / TREES_FILE, trees)
    again = tmp_path / TREES_FILE
    for name in reversed(trees):
        add_trees(again, {name: trees[name]})
    assert again.read_text(encoding="utf-8") == text


def test_what_is_made_otherwise_than_it_was_recorded_is_refused(
    project: Path, tmp_path: Path
) -> None:
    """A closure whose variables differ; what a module names may have other numbers."""
    root = tmp_path / "project"
    source = STATES.replace("optax.adam(1e-2)", "optax.adam(1e-1)")
    source = source.replace("q + scale * dt", "q - scale * dt")
    lines = [line for line in manifest().splitlines() if "  moved:" in line or "  named:" in line]
    head = MANIFEST.replace("trees: {", "#")
    write_project(root, "\n".join([head, *lines]), states=source, model=MODEL)
    (root / TREES_FILE).write_bytes((project / TREES_FILE).read_bytes())
    found = failed_units(root)
    assert list(found) == ["moved"]
    assert "functions.moved.args.a0: system in aot.trees.json: " in found["moved"]
    assert "expected" in found["moved"]
    assert "Record it again" in found["moved"]


# --- what a build makes of a file ---------------------------------------------------------------

OPTIMIZER = """
import jax


@jax.tree_util.register_pytree_node_class
class State:
    def __init__(self, params, tx):
        self.params, self.tx = params, tx

    def tree_flatten(self):
        return (self.params,), (self.tx,)

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children, *aux)


def scaled(rate):
    return lambda x: x * rate


TX = scaled(3.0)


class Unregistered:
    pass
"""
SMALL = """
import jax


def total(tree, x):
    return sum(leaf.sum() for leaf in jax.tree.leaves(tree)) + x.sum()


def step(state, x):
    return state.tx(state.params).sum() + x.sum()
"""
HEAD = "version: 1\npackage: proj\ndefaults: {verify: {golden: never}}\n"


def small_manifest(calls: dict[str, str], more: str = "") -> str:
    lines = [
        f'  {name}: {{call: "proj.model:{call}", args: [{"state" if call == "step" else "tree"}: '
        f'{{file: {TREES_FILE}, name: {name}}}, x: "f32[n,2]"], dims: {{n: [1, 3]}}{more}}}'
        for name, call in calls.items()
    ]
    return "\n".join([HEAD, "functions:", *lines, ""])


def state_of(data: object) -> DescribedTree:
    return DescribedTree(["node", "proj.tx:State", {"tuple": [data]}, "*"], ("f32[n]",))


def made(construction: object, title: str = "proj.tx.scaled.<locals>.<lambda>") -> object:
    """Return static data of another version of Python, whose digest nobody has here."""
    return {"made": ["2.7", {"fingerprint": [title, "d"]}, construction]}


def closure(owner: str, cells: object) -> object:
    name = f"{owner.partition(':')[2]}.<locals>.<lambda>"
    return made({"function": [owner, name, 0, None, None, cells]})


REFUSED = {
    "elsewhere": (
        DescribedTree(["node", "not_there:State", None, "*"], ("f32[n]",)),
        "it holds a not_there:State",
        "ModuleNotFoundError: No module named 'not_there'",
    ),
    "unregistered": (
        DescribedTree(["node", "proj.tx:Unregistered", None, "*"], ("f32[n]",)),
        "it holds a proj.tx:Unregistered",
        "Record it again, or name a function that makes it with like:.",
    ),
    "marked": (
        DescribedTree(["list", "*", ["static", "mean"]], ("f32[n]",)),
        "was recorded under a wrap, which the function has not; add wrap:",
    ),
    "other_type": (
        state_of(made({"name": "proj.tx:State"})),
        "what can be made of it is not what was recorded: expected",
    ),
    "no_name": (
        state_of(made({"name": "proj.tx:TY"})),
        "proj.tx:TY cannot be imported: AttributeError",
    ),
    "other_code": (
        state_of(closure("proj.tx:scaled", [["by", 2.0]])),
        "proj.tx:scaled does not make the same scaled.<locals>.<lambda> as where it was recorded",
    ),
    "needs_x64": (DescribedTree("*", ("f64[n]",)), "dtype float64 needs 64-bit mode"),
}


@pytest.mark.any_jax
def test_what_cannot_be_made_is_refused_with_the_reason(tmp_path: Path) -> None:
    calls = dict.fromkeys(REFUSED, "step")
    root = write_project(tmp_path / "p", small_manifest(calls), tx=OPTIMIZER, model=SMALL)
    add_trees(root / TREES_FILE, {name: tree for name, (tree, *_) in REFUSED.items()})
    found = failed_units(root)
    assert found.keys() == REFUSED.keys()
    for name, (_, *expected) in REFUSED.items():
        assert found[name].startswith(f"functions.{name}.args.state: "), found[name]
        assert all(text in found[name] for text in expected), found[name]
