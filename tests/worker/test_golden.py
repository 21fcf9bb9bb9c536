"""Golden outputs while building: what is computed, what is refused, what costs no executable."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from safetensors.numpy import load
from support.projects import build, run_project, write_project

from aotbuild.build import pool, worker_process
from aotbuild.build.pack import Package
from aotbuild.build.progress import UnitDone
from aotbuild.errors import BuildError
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.golden import sample_indices, seeded
from aotbuild.format.record import Golden, Record
from aotbuild.store.entry import Entry
from aotbuild.store.folder import Store

pytestmark = pytest.mark.process

SOURCE = """
import ctypes, os, pathlib, time, jax, jax.numpy as jnp, numpy as np

def scale(x, w, k=1.0):
    return {"y": x @ w * k, "n": jnp.argmax(x)}
def forever(x):
    return jax.lax.while_loop(lambda c: c[0] != 7.5, lambda c: c * 0 + 1, x)
def log(x):
    return jnp.log(-1 - abs(x)), jnp.argmax(x)
def large(x):
    return x + 1
def layers(x, *, n):
    return jax.lax.scan(lambda x, _: (jnp.tanh(x @ x), None), x, length=n)[0]
def chaos(x):
    return jax.lax.fori_loop(0, 24, lambda _, x: 3.9 * x * (1 - x), abs(x))
def product(a, b):
    return jax.lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
def dot(x, *, n):
    return x * n
def small(x):
    return x + 1

def arguments(batch, n=0):
    return {"x": np.full((batch, 3), 0.5, np.float32), "w": np.full((3, 3), 0.5, np.float32)}
def everything(**values):
    assert values == {"batch": 2, "n": 5}, values
    return {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}
def one(): return {"x": np.ones((2, 3), np.float32)}
def nothing(): return {}
def hang():
    pathlib.Path(__file__).with_name("hangs").touch()
    time.sleep(600)
def unknown(): return {"y": 1.0}
def misshapen(): return {"x": np.zeros((3, 2), np.float32)}
def wide(): return {"x": np.zeros((2, 3))}
def no_array(): return {"x": "text"}
def other_tree(): return {"x": [np.zeros((2, 3), np.float32)]}
def no_dict(): return [1]
def raising(): raise RuntimeError("no data here")
def needs(path): return {}
def enormous(): return {"x": np.zeros((65, 1 << 18), np.float32)}
def crash(): ctypes.string_at(0)
def leave(): os._exit(3)
def set_config():
    jax.config.update("jax_enable_x64", True)
    return {}
"""
X = "args: [x: 'f32[2,3]']"
DOT = f"call: proj.mod:dot, {X}, static: {{n: 5}}"


AFTER = f"call: proj.mod:small, {X}"


def project(root: Path, targets: str = "[cpu]", **functions: str) -> Path:
    """Write a project; each function is a YAML map without its braces, `after` is the last."""
    listing = "".join(
        f"  {name}: {{{text}}}\n" for name, text in ({"after": AFTER} | functions).items()
    )
    manifest = f"version: 1\npackage: proj\ntargets: {targets}\nfunctions:\n{listing}"
    return write_project(root, manifest, mod=SOURCE)


def record_of(package: Package, name: str) -> Record:
    return next(record for record in package.records if record.function == name)


def golden_of(package: Package, name: str) -> Golden:
    golden = record_of(package, name).golden
    assert golden is not None
    return golden


def tensors(package: Package, blob: Any) -> dict[str, Any]:
    found: dict[str, Any] = load((package.folder / blob.path).read_bytes())
    return found


def run(root: Path) -> list[UnitDone]:
    """Run every unit, one job at a time: what one of them learns, the next one knows."""
    return run_project(root, jobs=1)


# --- what is computed, and what is left out -------------------------------------------------------

# Name: its function in `proj.mod`, its options, and its `verify:`.
COMPUTED = {
    "scale": (
        "scale",
        "args: [x: 'f32[2,3]', w: 'f32[3,3]'], kwargs: {k: '~f32[]'}",
        "{rtol: 0.5, atol: 2}",
    ),
    "large": ("large", "args: [x: 'f32[200,200]']", "{}"),
    "symbolic": ("large", "args: [x: 'f32[n,3]'], dims: {n: [2, 5]}, export: {dims: {n: n}}", "{}"),
    "given": (
        "scale",
        "args: [x: 'f32[batch,3]', w: 'f32[3,3]'], kwargs: {k: 'f32[]'}, dims: {batch: [2, 3]}",
        "{golden: always, inputs: proj.mod:arguments}",
    ),
    "offered": (
        "dot",
        "args: [x: 'f32[batch,3]'], dims: {batch: [2]}, static: {n: 5}",
        "{inputs: proj.mod:everything}",
    ),
    "wide": ("dot", f"{X}, static: {{n: 5}}", "{inputs: proj.mod:wide}"),
    "product": ("product", "args: [a: 'i8[80,64]', b: 'i8[64,80]']", "{}"),
    "log": ("log", X, "{}"),
    "chaos": ("chaos", X, "{}"),
}
# The same, and why it has no golden outputs.
LEFT_OUT = {
    "never": ("large", X, "{golden: never}", "the manifest says verify: {golden: never}"),
    "too_large": (
        "large",
        f"args: [x: 'f32[{1 << 40}]']",
        "{}",
        "a call would need 43,980,465,111,040 bytes of memory, more than half of ",
    ),
    "too_slow": (
        "layers",
        "args: [x: 'f32[1500,1500]'], static: {n: 30000000}",
        "{}",
        "a call (2.0e+17 FLOPs) may take longer than 60 s",
    ),
}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    functions = {
        name: f"call: proj.mod:{function}, {options}, verify: {verify}"
        for name, (function, options, verify, *_) in (COMPUTED | LEFT_OUT).items()
    }
    return build(project(tmp_path_factory.mktemp("golden"), "[cpu, portable]", **functions))


def test_seeded_arguments_and_the_function_s_own_results(package: Package) -> None:
    native, portable = (r for r in package.records if r.function == "scale")
    assert native.golden == portable.golden
    golden = golden_of(package, "scale")
    assert (golden.inputs, golden.rtol, golden.atol) == ((), 0.5, 2)
    x, w, k = (seeded(leaf, aval) for leaf, aval in enumerate(native.signature.leaves))
    found = tensors(package, golden.outputs)
    assert found["0"].tolist() == [int(np.argmax(x))]
    np.testing.assert_allclose(found["1"], (x @ w * k).reshape(-1), rtol=1e-5)
    assert native.provenance["floats"] == ["float32"]
    assert "golden" not in native.provenance


def test_large_results_are_sampled(package: Package) -> None:
    outputs = golden_of(package, "large").outputs
    assert tensors(package, outputs)["0"].shape == (4096,)
    assert outputs.size < 20_000


def test_symbolic_dims_have_the_sizes_of_the_first_row(package: Package) -> None:
    (record,) = (r for r in package.records if r.function == "symbolic" and r.target.is_portable)
    assert record.golden is not None
    assert tensors(package, record.golden.outputs)["0"].shape == (6,)


def test_given_arguments_are_kept_and_equal_ones_once(package: Package) -> None:
    natives = [r for r in package.records if r.function == "given" and not r.target.is_portable]
    two, three = (record.golden for record in natives)
    assert two is not None
    assert three is not None
    assert [leaf for leaf, _ in two.inputs] == [leaf for leaf, _ in three.inputs] == [0, 1]
    # Both of the second are the same array, and the weights of the first too.
    assert len({blob for _, blob in (*two.inputs, *three.inputs)}) == 2
    (_, x), _ = two.inputs
    assert tensors(package, x)["constant"].tolist() == [[0.5] * 3] * 2


def test_a_function_that_amplifies_rounding_says_how_far(package: Package) -> None:
    """A deep model with seeded weights failed `verify` by one element of 4,096."""
    found = tensors(package, golden_of(package, "chaos").outputs)
    assert 1e-4 < found["0.spread"].item() < 1
    assert "0.spread" not in tensors(package, golden_of(package, "product").outputs)
    assert tensors(package, golden_of(package, "large").outputs)["0.spread"].item() < 1e-6


def test_the_function_of_inputs_is_offered_dims_and_static_values(package: Package) -> None:
    found = tensors(package, golden_of(package, "offered").outputs)
    assert found["0"].tolist() == [0, 5, 10, 15, 20, 25]


def test_64_bit_arrays_are_taken_as_jit_takes_them(package: Package) -> None:
    assert tensors(package, golden_of(package, "wide").outputs)["0"].tolist() == [0.0] * 6


def test_all_integers_count(package: Package) -> None:
    """A digest says more than samples, where no rounding decides the integers."""
    record = record_of(package, "product")
    a, b = (seeded(leaf, aval) for leaf, aval in enumerate(record.signature.leaves))
    found = tensors(package, golden_of(package, "product").outputs)
    # Exact in f32: at most 49 times 64.
    whole = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.int32)
    assert found["0"].tolist() == whole.reshape(-1)[sample_indices(whole.size)].tolist()
    assert found["0.sha256"].tobytes().hex() == sha256_hex(whole.tobytes())


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_takes_too_much_is_left_out_with_the_reason(package: Package, name: str) -> None:
    record = record_of(package, name)
    assert record.golden is None
    assert LEFT_OUT[name][-1] in record.provenance["golden"]
    assert golden_of(package, "after")


def test_results_without_a_finite_number_are_noted(package: Package) -> None:
    """What was left out has a note, too; what was computed has none."""
    assert golden_of(package, "log")
    log, *others = sorted(package.notes)
    assert log.startswith("log(): every golden output is NaN or infinite")
    assert {note.partition(": no golden outputs: a call ")[0] for note in others} == {
        "too_large()",
        "too_slow(n=30000000)",
    }
    assert all("compare it with jax.jit where it runs" in note for note in others)


# --- what is refused ------------------------------------------------------------------------------

WRONG = {
    "unknown": "gave 'y', which is no argument in args or kwargs",
    "misshapen": "misshapen: x\n      expected f32[2,3]\n      found    float32[3, 2]",
    "no_array": "no_array: x\n      expected f32[2,3]\n      found    builtins.str",
    "other_tree": "other_tree: x is another tree",
    "no_dict": "returned a builtins.list; expected a dict of arguments by name",
    "raising": "RuntimeError: no data here",
    "needs": "missing 1 required positional argument: 'path'",
    "set_config": "config: {jax_enable_x64: true}",
    "enormous": "gave 68,157,440 bytes",
}


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The error of each function of inputs that is wrong."""
    functions = {
        name: f"{DOT}, verify: {{inputs: 'proj.mod:{name}'}}"
        for name in WRONG.keys() - {"enormous"}
    }
    options = f"args: [x: 'f32[65,{1 << 18}]'], verify: {{inputs: proj.mod:enormous}}"
    functions["enormous"] = f"call: proj.mod:large, {options}"
    with pytest.raises(BuildError) as caught:
        build(project(tmp_path_factory.mktemp("wrong"), **functions))
    assert {failure.stage for failure in caught.value.failures} == {"golden"}
    return {failure.unit.partition("(")[0]: str(failure) for failure in caught.value.failures}


@pytest.mark.any_jax
@pytest.mark.parametrize("inputs", WRONG)
def test_wrong_inputs_fail_the_build(failures: dict[str, str], inputs: str) -> None:
    assert f"functions.{inputs}.verify" in failures[inputs]
    assert WRONG[inputs] in failures[inputs]


# --- functions that crash or hang -----------------------------------------------------------------


@pytest.mark.any_jax
def test_a_hang_costs_the_golden_outputs_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "GOLDEN_SECONDS", 1.0)
    place = project(
        tmp_path,
        "[cpu, portable]",
        forever="call: proj.mod:forever, args: [x: 'f32[n]'], dims: {n: [2, 3, 4]}",
        # Without that limit of time, which is no hang however slow the machine is.
        after=f"{AFTER}, verify: {{golden: always}}",
    )
    done = [result for result in run(place) if result.record]
    assert len(done) == 8
    hung = [r for r in done if r.record and r.record.function == "forever"]
    reasons = [r.record.provenance.get("golden") for r in hung if r.record]
    long, *others = sorted(set(map(str, reasons)))
    assert long == "it took longer than 1 s"
    assert [reason.partition(";")[0] for reason in others] == [
        "the first sizes of the dims have them"
    ]
    others = [r.record for r in done if r not in hung]
    assert [record.golden is not None for record in others if record] == [True] * 2
    (first, *_) = [note for result in hung for note in result.notes]
    assert first.startswith("no golden outputs: calling the function: it took longer than 1 s")


@pytest.mark.any_jax
def test_a_hang_fails_what_must_have_golden_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify = "{golden: always, inputs: 'proj.mod:hang'}"
    root = project(tmp_path, dot=f"{DOT}, verify: {verify}")
    hangs = root / "proj" / "hangs"

    class Timer(threading.Timer):
        """Its time is over when the function hangs, however long it took to come so far."""

        def run(self) -> None:
            while not self.finished.wait(0.01):
                if hangs.exists():
                    hangs.unlink()
                    self.function(*self.args)
                    return

    timers = SimpleNamespace(Timer=Timer, Thread=threading.Thread)
    monkeypatch.setattr(worker_process, "threading", timers)
    monkeypatch.setenv("AOTBUILD_TIMEOUT", "12")
    after, hung = run(root)
    assert after.record is not None
    assert hung.failure is not None
    assert hung.failure.stage == "golden"
    assert "took longer than 12 s and was stopped" in hung.failure.message
    assert "verify: {inputs: module:function}" in hung.failure.message


CRASHING = {"crash": "the compiler process died of SIGSEGV", "leave": "ended with exit code 3"}


@pytest.mark.any_jax
def test_a_crash_costs_the_golden_outputs_only(tmp_path: Path) -> None:
    """Unless the manifest says that the function must have them."""
    functions = {name: f"{DOT}, verify: {{inputs: 'proj.mod:{name}'}}" for name in CRASHING}
    must = f"{DOT}, verify: {{golden: always, inputs: 'proj.mod:crash'}}"
    done = run(project(tmp_path, "[cpu, portable]", **functions, must=must))
    for name, reason in CRASHING.items():
        found = [r for r in done if r.record and r.record.function == name]
        assert len(found) == 2
        told = [r.record.provenance["golden"] for r in found if r.record]
        assert all(reason in text for text in told)
        assert str(tmp_path) not in json.dumps(told)
        assert reason in found[0].notes[0]
    assert all(r.record.golden for r in done if r.record and r.record.function == "after")
    failures = [r.failure.message for r in done if r.failure]
    assert len(failures) == 2
    words = "calling the function with golden inputs: the compiler process died of SIGSEGV"
    assert words in failures[0]
    assert "in crash" in failures[0]


# --- the store ------------------------------------------------------------------------------------


@pytest.mark.any_jax
def test_the_store_has_golden_outputs_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    first = build(project(tmp_path / "a", dot=DOT))
    store = Store(tmp_path / "store")
    for path in (tmp_path / "store").rglob("*"):
        entry = store.get(path.name) if path.is_file() else None
        if entry and "finite" in entry.facts:
            store.put(path.name, Entry(entry.facts, entry.data + b" "))
    given = f"{DOT}, verify: {{inputs: proj.mod:one}}"
    second = build(project(tmp_path / "b", dot=DOT, given=given))
    data = (first.folder / golden_of(first, "dot").outputs.path).read_bytes()
    assert golden_of(second, "dot").outputs.sha256 == sha256_hex(data + b" ")
    assert golden_of(second, "given").outputs != golden_of(first, "dot").outputs
    assert jax.__version__ == first.records[0].provenance["jax"]
