"""Everything that a build must refuse, in one project built once: what, where, found, next step.

The project is tests/packages/broken: `aot.yaml` for executables, `export.yaml` for the portable
form. Its sources mark lines with `# @name`; an expectation `@name` stands for that file and line.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.projects import MANIFEST, PACKAGES, build, copy_project, place_of_mark

from aotbuild.errors import BuildError

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

BROKEN = PACKAGES / "broken"
# Written by the test, so that linters and editors can read the whole checkout.
SYNTAX_ERROR = "def f(x):\n    return (x\n"
UNTRACED = "Call it once with jax.eval_shape"
CALLBACK = (
    "calls back into Python (pure_callback) at",
    "@pure",
    "in pure",
    "Remove it, or move it outside the function (equinox",
)
MUTABLE = "Pass the value in as an argument, and return the new one."

# Name of the function in the manifest: parts of the message.
CASES: dict[str, tuple[str, ...]] = {
    # --- finding the function
    "no_module": (
        "functions.no_module.call: proj.bda:f: no module named 'proj.bda'",
        "did you mean 'bad'?",
    ),
    "no_package": ("no module named 'porj' in the project or what it uses",),
    "module_raises": (
        "importing proj.raises failed",
        "@json",
        'json.loads("{")',
        "JSONDecodeError",
    ),
    "module_raises_too": ("importing proj.raises failed",),
    "module_needs": (
        "importing proj.needs needs 'surely_not_installed'",
        "needs.py:1",
        "dependencies",
    ),
    "module_exits": ("importing proj.exits failed", "@exit", "no licence"),
    "module_syntax": ("syntax.py:2", "return (x", "was never closed"),
    "module_config": (
        "functions.module_config: the manifest says config: {jax_enable_x64: false}",
        "importing proj.wide sets it to true",
        "Take it out of one of them.",
    ),
    "spsolve": ("calls back into Python (spsolve) at", "@spsolve", "Remove it, or move it outside"),
    "narrow": (
        "makes an array of float6_e2m3fn (convert_element_type) at",
        "@narrow",
        "XLA compiles no operation on it; use a wider one",
    ),
    "float0": (
        "proj.bad:float0 returns an array at result['grads'][1] of dtype float0",
        "Return None or zeros in its place, or leave it out.",
    ),
    "sets_config": (
        "proj.bad:sets_config: tracing or calling it changed jax's settings: jax_enable_x64 from ",
        "from False to True",
        "config: {jax_enable_x64: true}",
    ),
    "not_found": (
        "functions.not_found.call: proj.bad:identty: proj.bad has no 'identty'",
        "(did you mean 'identity'?)",
    ),
    "not_in_class": ("proj.bad.Box has no 'doubel' (did you mean 'double'?)",),
    "property_raises": ("OSError: no weights here",),
    "not_callable": ("proj.bad:number is not callable", "builtins.int"),
    "no_signature": ("has no readable signature", "wrap it in def"),
    # --- arguments
    "too_many": (
        "functions.too_many.args: proj.bad:identity(x) takes 1 array arguments by position",
        "gives 2: x, y",
    ),
    "misordered": ("proj.bad:pair(a, b) expected 'a' at this place, found 'b'",),
    "missing": ("pair(a, b) needs 'b', which the",),
    "missing_self": ("needs 'self'",),
    "unknown_kwarg": (
        "functions.unknown_kwarg.kwargs: proj.bad:scaled(x, scale: float = 1.0) has no",
        "parameter 'sclae' (did you mean 'scale'?)",
    ),
    "by_name_only": ("takes 'b' by name only; give it under kwargs",),
    "by_position_only": ("takes 'b' by position only; give it under args",),
    "static_name": (
        "functions.static_name.static",
        "has no parameter 'scael' (did you mean 'scale'?)",
    ),
    "static_position": (
        "position 1 is outside the 1 positional parameters of proj.bad:keyword_only(a, *, b)",
    ),
    "static_twice": ("one parameter is given by name and by position (scale)",),
    "like_missing": ("functions.like_missing.args.x: proj.bad:tre", "(did you mean 'tree'?)"),
    "like_raises": (
        "functions.like_raises.args.x: like: proj.bad:broken_like gave no tree of arrays",
        "@broken_like",
        "KeyError: 'weights'",
    ),
    "like_exits": ("SystemExit: no data",),
    "like_text": (
        "functions.like_text.args.x: like: proj.bad:text_like['name'] is a builtins.str",
        "set wrap: eqx.filter_jit",
    ),
    "like_strings": ("proj.bad:strings[0] is a builtins.str", "Expected arrays"),
    "like_ref": ("proj.bad:state is a mutable array",),
    "like_module": ("proj.heavy:whole_mlp.activation is a", "eqx.filter(module, eqx.is_array)"),
    "f64": (
        "functions.f64.args.x: dtype float64 needs 64-bit mode",
        "config: {jax_enable_x64: true}",
    ),
    "opaque_in": (
        "argument m[1]['m'] is a proj.heavy.Module",
        "_thread._local keeps its state",
        "eqx.filter or partition",
    ),
    # --- tracing
    "raises": (
        "proj.bad:raises raised while it was traced",
        "@raises",
        "in raises",
        "jnp.sum(jax.jit(inner)(x))",
        "@inner",
        "in inner",
        "ValueError: bad luck: 💥",
        UNTRACED,
    ),
    "in_a_library": ("@library", 'LIBRARY["dig"](x, 9)', "library.py:2 in dig"),
    "exits": ("raised while it was traced", "@exits", "SystemExit: 3"),
    "endless": ("RecursionError",),
    "mute": ("Mute: its text cannot be shown (RuntimeError in __str__)",),
    "huge": ("ValueError: start xxx", "characters left out", "xxx end"),
    "surrogate": ("lone \\ud800 half",),
    "branch": (
        "@branch",
        "if flag:",
        "TracerBoolConversionError",
        "the argument flag",
        "list it under static:",
    ),
    "to_numpy": ("TracerArrayConversionError", "use jax.numpy"),
    "mask": ("NonConcreteBooleanIndexError", "jax.numpy.where"),
    "count": ("TracerIntegerConversionError", "list it under static:"),
    "static": ("Non-hashable static arguments", UNTRACED),
    "shapes": ("raised while it was traced", "in use", "(5,)", UNTRACED),
    "text": ("<class 'str'>", "not a valid JAX type"),
    # --- what an executable cannot carry
    "pure": CALLBACK,
    "io": ("(io_callback) at", "@io"),
    "printing": ("prints from Python (debug_print) at", "@printing"),
    "debugging": ("(debug_callback) at", "@debugging"),
    "in_scan": CALLBACK,
    "in_custom": CALLBACK,
    "two": ("@pure", "@io"),
    "closes": ("closes over a mutable array", "@closes", MUTABLE),
    "closes_in_scan": ("closes over a mutable array", MUTABLE),
    "opaque_out": ("returns a proj.bad.Node at result['a'][0]", "Return standard containers"),
    "opaque_deep": ("at result['a'][1][1]['b']",),
    "leaks_file": ("proj/bad.py", "a path of this machine", "named_scope"),
    # --- shardings
    "rank": (
        "functions.rank.in_shardings: PartitionSpec(None, 'd') does not fit x",
        "2 entries, the array has 1 dimensions",
    ),
    "indivisible": (
        "functions.indivisible.in_shardings",
        "dimension 0 has size 3, which 'd' would split into 2",
    ),
    "indivisible_out": ("functions.indivisible_out.out_shardings", "does not fit result['y']"),
    "nowhere": (
        "functions.nowhere.in_shardings: params.weight leads to no array",
        "params['b'], params['w'], x",
    ),
    "nowhere_out": ("functions.nowhere_out.out_shardings: z leads to no array", "result['y']"),
    # --- options that only jax can judge
    "config_name": ("has no option 'jax_enable_x46' (did you mean 'jax_enable_x64'?)",),
    "config_value": ("config: jax_default_matmul_precision: jax refuses 'hihgest'", "'highest'"),
    "config_kind": ("config: jax_enable_x64: expected true or false, found 3",),
    "compiler_option": ("xla_no_such_option", "compiler_options {xla_no_such_option: True}"),
}
EXPORTED: dict[str, tuple[str, ...]] = {
    "inconclusive": ("raised while it was traced", "@compare", "under export: constraints"),
    "number": (
        "cannot be interpreted as an integer",
        "@count_up",
        "symbols in the portable form, here n. If the code needs a number, leave the dim out",
    ),
    "constraint": ("functions.constraint.export.constraints: jax refuses '3 >= 4'",),
    "custom_call": ("cannot be exported for cpu", "export: disabled_checks"),
}


def copy_broken(to: Path, manifest: str) -> Path:
    """Copy the broken project with one of its manifests as the manifest."""
    root = copy_project("broken", to)
    (root / "proj" / "syntax.py").write_text(SYNTAX_ERROR)
    chosen = (BROKEN / manifest).read_text(encoding="utf-8")
    for path in root.glob("*.yaml"):
        path.unlink()
    (root / MANIFEST).write_text(chosen, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_broken(tmp_path_factory.mktemp("refused"), MANIFEST)


@pytest.fixture(scope="module")
def error(root: Path) -> BuildError:
    with pytest.raises(BuildError) as caught:
        build(root)
    return caught.value


@pytest.mark.parametrize("name", CASES)
def test_refused(root: Path, error: BuildError, name: str) -> None:
    (message,) = [f.message for f in error.failures if f.unit.startswith(f"{name}(")]
    for part in CASES[name]:
        assert place_of_mark(root, part) in message, message
    for hidden in ("site-packages/jax/", "aotbuild/build", "<frozen", "json/decoder.py"):
        assert hidden not in message, message


def test_every_failure_is_reported_and_no_other(error: BuildError) -> None:
    assert len(error.failures) == len(CASES)
    assert error.total == len(CASES) + 1
    assert str(error).startswith(f"{len(CASES)} of {len(CASES) + 1} build units failed")
    assert str(error).count("importing proj.raises failed") == 1


@pytest.mark.usefixtures("error")
def test_nothing_half_written_is_left(root: Path) -> None:
    modules = {path.name for path in (BROKEN / "proj").glob("*.py")}
    assert {path.name for path in (root / "proj").iterdir()} == {*modules, "syntax.py"}
    assert {path.name for path in root.iterdir()} == {"proj", MANIFEST}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BuildError]:
    root = copy_broken(tmp_path_factory.mktemp("exported"), "export.yaml")
    with pytest.raises(BuildError) as caught:
        build(root)
    return root, caught.value


@pytest.mark.parametrize("name", EXPORTED)
def test_export_refused(exported: tuple[Path, BuildError], name: str) -> None:
    root, error = exported
    (message,) = [f.message for f in error.failures if f.unit.startswith(f"{name}(")]
    for part in EXPORTED[name]:
        assert place_of_mark(root, part) in message, message
