"""Everything that a build must refuse, in one project built once: what, where, found, next step.

The sources mark lines with `#@ name`; an expectation `@name` stands for that file and line.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import build, write_project

from aotbuild.errors import BuildError

BAD = """
import jax, jax.numpy as jnp, numpy as np, equinox as eqx
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def identity(x): return x
def pair(a, b): return a, b
def keyword_only(a, *, b): return a, b
def positional_only(a, b=1, /): return a
def scaled(x, scale: float = 1.0): return x * scale
number = 7
largest = max

class Box:
    @staticmethod
    def double(x): return x * 2
    def method(self, x): return x

class Lazy(type):
    @property
    def broken(cls): raise OSError("no weights here")
class Holder(metaclass=Lazy): pass

def inner(x):
    raise ValueError("bad luck: 💥")  #@ inner
def raises(x):
    return jnp.sum(jax.jit(inner)(x))  #@ raises
def exits(x): raise SystemExit(3)  #@ exits
def endless(x): return endless(x)
class Mute(Exception):
    def __str__(self): raise RuntimeError
def mute(x): raise Mute
def huge(x): raise ValueError("start " + "x" * 10_000_000 + " end")
def surrogate(x): raise ValueError("lone \\ud800 half")
def branch(x, flag):
    if flag:  #@ branch
        return x
    return -x
def to_numpy(x): return np.sin(np.asarray(x))
def mask(x): return x[x > 0]
def count(x, n): return [x] * range(9)[n]

def pure(x):
    return jax.pure_callback(np.sin, x, x)  #@ pure
def io(x):
    return io_callback(np.sin, x, x, ordered=True)  #@ io
def printing(x):
    jax.debug.print("x {}", x)  #@ printing
    return x
def ordered(x):
    jax.debug.print("x {}", x, ordered=True)
    return x
def debugging(x):
    jax.debug.callback(print, x)  #@ debugging
    return x
def in_scan(x):
    def step(c, _): return pure(c), None
    return jax.lax.scan(step, x, None, length=2)[0]
def in_cond(x): return jax.lax.cond(x[0] > 0, pure, jnp.negative, x)
def in_jit(x): return jax.jit(pure)(x)
def in_while(x): return jax.lax.while_loop(lambda c: pure(c)[0] < 0, lambda c: c + 1, x)
@jax.custom_vjp
def custom(x): return pure(x)
custom.defvjp(lambda x: (x, None), lambda _, g: (g,))
def in_custom(x): return custom(jax.checkpoint(lambda y: y + 1)(x))
def two(x): return pure(x) + io(x)

state = jax.new_ref(jnp.zeros(3))
def closes(x):
    state[...] += x  #@ closes
    return state[...]
def closes_in_scan(x):
    def step(c, _):
        state[...] += c
        return c, None
    return jax.lax.scan(step, x, None, length=2)[0]

def text(x): return "a", x
def broken_like(): raise KeyError("weights")  #@ broken_like
def text_like(): return {"name": "abc"}
def exit_like(): raise SystemExit("no data")
strings = ["a", "b"]

class Node:
    def __init__(self, x): self.x = x
hook = lambda x: x
jax.tree_util.register_pytree_node(Node, lambda n: ((n.x,), hook), lambda aux, c: Node(*c))
def opaque_out(x): return {"a": [Node(x)]}
def opaque_deep(x): return {"a": [x, (None, {"b": Node(x)})]}
class Module(eqx.Module):
    w: jax.Array
    hook: object = eqx.field(static=True)
def module(): return [None, {"m": Module(jnp.zeros(2), lambda x: x)}]
def unequal(m, x): return m[1]["m"].w + x
whole_mlp = eqx.nn.MLP(2, 2, 2, 1, key=jax.random.key(0))
def apply_mlp(mlp, x): return x

def tree(): return {"w": jnp.zeros((4, 3)), "b": jnp.zeros(3)}
def use(params, x): return x @ params["w"] + params["b"]
def out_tree(x): return {"y": x, "n": x.sum()}
def other_mesh(x):
    mesh = Mesh(np.array(jax.devices()).reshape(2), ("other",))
    return jax.lax.with_sharding_constraint(x * 2, NamedSharding(mesh, P("other")))
def loop(x): return jax.lax.while_loop(lambda c: c[0] < 3, lambda c: c + 1, x)
def compare(x): return x[: 3 if x.shape[0] > 3 else 1]  #@ compare
def unsafe(x): return jax.ffi.ffi_call("no_such_target", x)(x)
def leaks_file(x):
    with jax.named_scope(__file__):
        return jnp.sin(x)
"""
MODULES = {
    "bad": BAD,
    "raises": "import json\nx = 1\njson.loads('{')  #@ json\n",
    "needs": "import surely_not_installed\n",
    "exits": "import sys\nsys.exit('no licence found')  #@ exit\n",
    "syntax": "def f(x):\n    return (x\n",
    "wide": "import jax\njax.config.update('jax_enable_x64', True)\ndef f(x): return x\n",
}
X = "args: [{x: 'f32[3]'}]"
TREE = "args: [{params: {like: 'proj.bad:tree'}}, {x: 'f32[2,4]'}]"
SYMBOLIC = "args: [{x: 'f32[n]'}]\n    dims: {n: [2]}\n    export: {dims: {n: n}"
MESH = "mesh: {d: 2}"
UNTRACED = "Call it once with jax.eval_shape"
CALLBACK = ("calls back into Python (pure_callback) at", "@pure", "in pure", "Remove it, or move")
MUTABLE = "Pass the value in as an argument, and return the new one."

# name: (call, options, parts of the message)
CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    # --- finding the function
    "no_module": (
        "proj.bda:f",
        X,
        ("functions.no_module.call: proj.bda:f: no module named 'proj.bda'", "did you mean 'bad'?"),
    ),
    "no_package": ("porj.bad:f", X, ("no module named 'porj' in the project or what it uses",)),
    "module_raises": (
        "proj.raises:f",
        X,
        ("importing proj.raises failed", "@json", "json.loads('{')", "JSONDecodeError"),
    ),
    "module_needs": (
        "proj.needs:f",
        X,
        ("importing proj.needs needs 'surely_not_installed'", "needs.py:1", "dependencies"),
    ),
    "module_exits": ("proj.exits:f", X, ("importing proj.exits failed", "@exit", "no licence")),
    "module_syntax": ("proj.syntax:f", X, ("syntax.py:2", "return (x", "was never closed")),
    "module_config": (
        "proj.wide:f",
        X,
        (
            "changed jax's settings: jax_enable_x64 from False to True",
            "config: {jax_enable_x64: true}",
        ),
    ),
    "not_found": (
        "proj.bad:identty",
        X,
        (
            "functions.not_found.call: proj.bad:identty: proj.bad has no 'identty'",
            "(did you mean 'identity'?)",
        ),
    ),
    "not_in_class": (
        "proj.bad:Box.doubel",
        X,
        ("proj.bad.Box has no 'doubel' (did you mean 'double'?)",),
    ),
    "property_raises": ("proj.bad:Holder.broken", X, ("OSError: no weights here",)),
    "not_callable": ("proj.bad:number", X, ("proj.bad:number is not callable", "builtins.int")),
    "no_signature": ("proj.bad:largest", X, ("has no readable signature", "wrap it in def")),
    # --- arguments
    "too_many": (
        "proj.bad:identity",
        "args: [{x: 'f32[3]'}, {y: 'f32[3]'}]",
        (
            "functions.too_many.args: proj.bad:identity(x) takes 1 array arguments by position",
            "gives 2: x, y",
        ),
    ),
    "misordered": (
        "proj.bad:pair",
        "args: [{b: 'f32[3]'}, {a: 'f32[3]'}]",
        ("proj.bad:pair(a, b) expected 'a' at this place, found 'b'",),
    ),
    "missing": ("proj.bad:pair", "args: [{a: 'f32[3]'}]", ("pair(a, b) needs 'b', which the",)),
    "missing_self": ("proj.bad:Box.method", "kwargs: {x: 'f32[3]'}", ("needs 'self'",)),
    "unknown_kwarg": (
        "proj.bad:scaled",
        f"{X}\n    kwargs: {{sclae: 'f32[]'}}",
        (
            "functions.unknown_kwarg.kwargs: proj.bad:scaled(x, scale: float = 1.0) has no",
            "parameter 'sclae' (did you mean 'scale'?)",
        ),
    ),
    "by_name_only": (
        "proj.bad:keyword_only",
        "args: [{a: 'f32[3]'}, {b: 'f32[3]'}]",
        ("takes 'b' by name only; give it under kwargs",),
    ),
    "by_position_only": (
        "proj.bad:positional_only",
        "args: [{a: 'f32[3]'}]\n    kwargs: {b: 'f32[]'}",
        ("takes 'b' by position only; give it under args",),
    ),
    "static_name": (
        "proj.bad:scaled",
        f"{X}\n    static: {{scael: [1.0]}}",
        ("functions.static_name.static", "has no parameter 'scael' (did you mean 'scale'?)"),
    ),
    "static_position": (
        "proj.bad:keyword_only",
        "kwargs: {b: 'f32[3]'}\n    static: {0: [1], 1: [2]}",
        ("position 1 is outside the 1 positional parameters of proj.bad:keyword_only(a, *, b)",),
    ),
    "static_twice": (
        "proj.bad:scaled",
        f"{X}\n    static: {{1: [1.0], scale: [2.0]}}",
        ("one parameter is given by name and by position (scale)",),
    ),
    "like_missing": (
        "proj.bad:identity",
        "args: [{x: {like: 'proj.bad:tre'}}]",
        ("functions.like_missing.args.x: proj.bad:tre", "(did you mean 'tree'?)"),
    ),
    "like_raises": (
        "proj.bad:identity",
        "args: [{x: {like: 'proj.bad:broken_like'}}]",
        (
            "functions.like_raises.args.x: like: proj.bad:broken_like gave no tree of arrays",
            "@broken_like",
            "KeyError: 'weights'",
        ),
    ),
    "like_exits": (
        "proj.bad:identity",
        "args: [{x: {like: 'proj.bad:exit_like'}}]",
        ("SystemExit: no data",),
    ),
    "like_text": (
        "proj.bad:identity",
        "args: [{x: {like: 'proj.bad:text_like'}}]",
        ("gave no tree of arrays", "text_like at", "<class 'str'>", "['name']", "Expected arrays"),
    ),
    "like_strings": (
        "proj.bad:identity",
        "args: [{x: {like: 'proj.bad:strings'}}]",
        ("proj.bad:strings[0] is a builtins.str", "Expected arrays"),
    ),
    "like_ref": (
        "proj.bad:identity",
        "args: [{x: {like: 'proj.bad:state'}}]",
        ("proj.bad:state is a mutable array",),
    ),
    "like_module": (
        "proj.bad:apply_mlp",
        "args: [{mlp: {like: 'proj.bad:whole_mlp'}}, {x: 'f32[2]'}]",
        ("proj.bad:whole_mlp.activation is a", "eqx.filter(module, eqx.is_array)"),
    ),
    "f64": (
        "proj.bad:identity",
        "args: [{x: 'f64[3]'}]",
        ("functions.f64.args.x: dtype float64 needs 64-bit mode", "config: {jax_enable_x64: true}"),
    ),
    "opaque_in": (
        "proj.bad:unequal",
        "args: [{m: {like: 'proj.bad:module'}}, {x: 'f32[2]'}]",
        ("argument m[1]['m'] is a proj.bad.Module", "lambda", "eqx.filter or partition"),
    ),
    # --- tracing
    "raises": (
        "proj.bad:raises",
        X,
        (
            "proj.bad:raises raised while it was traced",
            "@raises",
            "in raises",
            "jnp.sum(jax.jit(inner)(x))",
            "@inner",
            "in inner",
            "ValueError: bad luck: 💥",
            UNTRACED,
        ),
    ),
    "exits": ("proj.bad:exits", X, ("raised while it was traced", "@exits", "SystemExit: 3")),
    "endless": ("proj.bad:endless", X, ("RecursionError",)),
    "mute": ("proj.bad:mute", X, ("Mute: its text cannot be shown (RuntimeError in __str__)",)),
    "huge": ("proj.bad:huge", X, ("ValueError: start xxx", "characters left out", "xxx end")),
    "surrogate": ("proj.bad:surrogate", X, ("lone \\ud800 half",)),
    "branch": (
        "proj.bad:branch",
        "args: [{x: 'f32[3]'}, {flag: 'bool[]'}]",
        (
            "@branch",
            "if flag:",
            "TracerBoolConversionError",
            "the argument flag",
            "list it under static:",
        ),
    ),
    "to_numpy": ("proj.bad:to_numpy", X, ("TracerArrayConversionError", "use jax.numpy")),
    "mask": ("proj.bad:mask", X, ("NonConcreteBooleanIndexError", "jax.numpy.where")),
    "count": (
        "proj.bad:count",
        "args: [{x: 'f32[3]'}, {n: 'i32[]'}]",
        ("TracerIntegerConversionError", "list it under static:"),
    ),
    "shapes": (
        "proj.bad:use",
        "args: [{params: {like: 'proj.bad:tree'}}, {x: 'f32[2,5]'}]",
        ("raised while it was traced", "in use", "(5,)", UNTRACED),
    ),
    "text": ("proj.bad:text", X, ("<class 'str'>", "not a valid JAX type")),
    # --- what an executable cannot carry
    "pure": ("proj.bad:pure", X, CALLBACK),
    "io": ("proj.bad:io", X, ("(io_callback) at", "@io")),
    "printing": ("proj.bad:printing", X, ("prints from Python (debug_print) at", "@printing")),
    "ordered": ("proj.bad:ordered", X, ("prints from Python",)),
    "debugging": ("proj.bad:debugging", X, ("(debug_callback) at", "@debugging")),
    "in_scan": ("proj.bad:in_scan", X, CALLBACK),
    "in_cond": ("proj.bad:in_cond", X, CALLBACK),
    "in_jit": ("proj.bad:in_jit", X, CALLBACK),
    "in_while": ("proj.bad:in_while", "args: [{x: 'f32[1]'}]", CALLBACK),
    "in_custom": ("proj.bad:in_custom", X, CALLBACK),
    "two": ("proj.bad:two", X, ("@pure", "@io")),
    "closes": ("proj.bad:closes", X, ("closes over a mutable array", "@closes", MUTABLE)),
    "closes_in_scan": ("proj.bad:closes_in_scan", X, ("closes over a mutable array", MUTABLE)),
    "opaque_out": (
        "proj.bad:opaque_out",
        X,
        ("returns a proj.bad.Node at result['a'][0]", "Return standard containers"),
    ),
    "opaque_deep": ("proj.bad:opaque_deep", X, ("at result['a'][1][1]['b']",)),
    "leaks_file": (
        "proj.bad:leaks_file",
        X,
        ("proj/bad.py", "a path of this machine", "named_scope"),
    ),
    # --- shardings
    "rank": (
        "proj.bad:identity",
        f"{X}\n    {MESH}\n    in_shardings: {{x: [null, d]}}",
        (
            "functions.rank.in_shardings: PartitionSpec(None, 'd') does not fit x",
            "2 entries, the array has 1 dimensions",
        ),
    ),
    "indivisible": (
        "proj.bad:identity",
        f"{X}\n    {MESH}\n    in_shardings: {{x: [d]}}",
        (
            "functions.indivisible.in_shardings",
            "dimension 0 has size 3, which 'd' would split into 2",
        ),
    ),
    "indivisible_out": (
        "proj.bad:out_tree",
        f"{X}\n    {MESH}\n    out_shardings: {{y: [d]}}",
        ("functions.indivisible_out.out_shardings", "does not fit result['y']"),
    ),
    "nowhere": (
        "proj.bad:use",
        f"{TREE}\n    {MESH}\n    in_shardings: {{params: {{weight: [d]}}}}",
        (
            "functions.nowhere.in_shardings: params.weight leads to no array",
            "params['b'], params['w'], x",
        ),
    ),
    "nowhere_out": (
        "proj.bad:out_tree",
        f"{X}\n    {MESH}\n    out_shardings: {{z: [d]}}",
        ("functions.nowhere_out.out_shardings: z leads to no array", "result['y']"),
    ),
    "other_mesh": (
        "proj.bad:other_mesh",
        f"args: [{{x: 'f32[4]'}}]\n    {MESH}\n    in_shardings: {{x: [d]}}",
        ("other",),
    ),
    # --- options that only jax can judge
    "config_name": (
        "proj.bad:identity",
        f"{X}\n    config: {{jax_enable_x46: true}}",
        ("has no option 'jax_enable_x46' (did you mean 'jax_enable_x64'?)",),
    ),
    "config_value": (
        "proj.bad:identity",
        f"{X}\n    config: {{jax_default_matmul_precision: hihgest}}",
        ("config: jax_default_matmul_precision: jax refuses 'hihgest'", "'highest'"),
    ),
    "config_kind": (
        "proj.bad:identity",
        f"{X}\n    config: {{jax_enable_x64: 3}}",
        ("config: jax_enable_x64: expected true or false, found 3",),
    ),
    "compiler_option": (
        "proj.bad:identity",
        f"{X}\n    compiler_options: {{xla_no_such_option: true}}",
        ("xla_no_such_option", "compiler_options {xla_no_such_option: True}"),
    ),
}
EXPORTED: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "derivative": (
        "proj.bad:loop",
        f"{X}\n    export: {{vjp_order: 1}}",
        ("was exported, but not its derivatives of order 1", "lax.while_loop", "vjp_order: 0"),
    ),
    "inconclusive": (
        "proj.bad:compare",
        f"{SYMBOLIC}}}",
        ("raised while it was traced", "@compare", "under export: constraints"),
    ),
    "constraint": (
        "proj.bad:identity",
        f"{SYMBOLIC}, constraints: ['3 >= 4']}}",
        ("functions.constraint.export.constraints: jax refuses '3 >= 4'",),
    ),
    "custom_call": (
        "proj.bad:unsafe",
        X,
        ("cannot be exported for cpu", "export: disabled_checks"),
    ),
}
GOOD = "proj.bad:Box.double"


def project(root: Path, head: str, cases: dict[str, tuple[str, str, tuple[str, ...]]]) -> Path:
    functions = "".join(
        f"  {name}:\n    call: '{call}'\n    {options}\n"
        for name, (call, options, _) in cases.items()
    )
    manifest = f"version: 1\npackage: proj\n{head}functions:\n{functions}"
    return write_project(root, manifest, **MODULES)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("refused"), "", {**CASES, "good": (GOOD, X, ())})


@pytest.fixture(scope="module")
def error(root: Path) -> BuildError:
    with pytest.raises(BuildError) as caught:
        build(root)
    return caught.value


@pytest.mark.parametrize("name", CASES)
def test_refused(root: Path, error: BuildError, name: str) -> None:
    (message,) = [f.message for f in error.failures if f.unit.startswith(f"{name}(")]
    for part in CASES[name][2]:
        assert _place(root, part) in message, message
    for hidden in ("site-packages/jax/", "aotbuild/build", "<frozen", "json/decoder.py"):
        assert hidden not in message, message


def test_every_failure_is_reported_and_no_other(error: BuildError) -> None:
    assert len(error.failures) == len(CASES)
    assert error.total == len(CASES) + 1
    assert str(error).startswith(f"{len(CASES)} of {len(CASES) + 1} build units failed")


def test_messages_are_no_longer_than_people_read(error: BuildError) -> None:
    assert max(len(failure.message) for failure in error.failures) < 6000


@pytest.mark.usefixtures("error")
def test_nothing_half_written_is_left(root: Path) -> None:
    left = {path.name for path in (root / "proj").iterdir()}
    assert left == {"__init__.py", *(f"{name}.py" for name in MODULES)}
    assert {path.name for path in root.iterdir()} == {"proj", "aot.yaml"}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BuildError]:
    targets = "targets: [{portable: {platforms: [cpu]}}]\n"
    root = project(tmp_path_factory.mktemp("exported"), targets, EXPORTED)
    with pytest.raises(BuildError) as caught:
        build(root)
    return root, caught.value


@pytest.mark.parametrize("name", EXPORTED)
def test_export_refused(exported: tuple[Path, BuildError], name: str) -> None:
    root, error = exported
    (message,) = [f.message for f in error.failures if f.unit.startswith(f"{name}(")]
    for part in EXPORTED[name][2]:
        assert _place(root, part) in message, message


def _place(root: Path, part: str) -> str:
    """Return the `file:line` that `@name` stands for, or the part itself."""
    if not part.startswith("@"):
        return part
    for name, source in MODULES.items():
        for number, line in enumerate(source.splitlines(), 1):
            if line.endswith(f"#@ {part[1:]}"):
                return f"{root / 'proj' / name}.py:{number}"
    pytest.fail(f"no line is marked {part}")
