"""Golden outputs while verifying: honest executables pass, others fail with numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from attacks import wheels
from attacks.wheels import Built, check
from support import packages
from support.cli import run
from support.hang import LIMIT, TOO_LONG, hanging

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.golden import sample_indices, samples, seeded
from aotbuild.format.index import Index
from aotbuild.format.record import Blob, Golden, Record
from aotbuild.verify import api, child
from aotbuild.verify import children as process
from aotbuild.verify.children import Children
from aotbuild.verify.golden_outputs import VERDICT, Wanted, differences
from aotbuild.verify.jobs import Job, outcomes_of
from aotbuild.verify.outcome import Outcome, Report, Status
from aotbuild.worker.blobs import serialize

X = {"x": np.zeros((2, 3), np.float32)}


def half(x: Any) -> Any:
    return {"y": x / 2, "n": jnp.argmax(x)}


def third(x: Any) -> Any:
    return {"y": x / 3, "n": jnp.argmax(x)}


def blob_of(data: bytes) -> Blob:
    return Blob("safetensors", sha256_hex(data), len(data))


def with_golden(
    built: Built, outputs: bytes, given: Sequence[tuple[int, bytes]] = (), **tolerance: float
) -> Built:
    inputs = tuple((leaf, blob_of(data)) for leaf, data in given)
    golden = Golden(inputs, blob_of(outputs), **tolerance)
    blobs = {blob_of(data).path: data for data in (outputs, *(data for _, data in given))}
    record = dataclasses.replace(built.record, golden=golden)
    return dataclasses.replace(built, record=record, blobs={**built.blobs, **blobs})


def outputs_of(fn: Any, *leaves: Any) -> bytes:
    flat = [np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(fn(*leaves))]
    floats = [str(leaf.dtype) for leaf in flat if leaf.dtype.kind == "f"]
    return serialize(samples(flat, floats))


def honest(fn: Any = half, **options: Any) -> Built:
    built = packages.build("f", fn, X)
    (aval,) = built.record.signature.leaves
    return with_golden(built, outputs_of(fn, seeded(0, aval)), **options)


def report_on(tmp_path: Path, *built: Built, **options: Any) -> Report:
    files = wheels.aot_files(built)
    report = check(wheels.write_folder(tmp_path / "_aot", files), load=True, **options)
    assert not [o for o in report.outcomes if o.status.is_failure and o.check in ("index", "blobs")]
    return report


def goldens(report: Report) -> list[Outcome]:
    return [outcome for outcome in report.outcomes if outcome.check == "golden"]


class InThisProcess(Children):
    """Does a child's jobs in this process, which has imported jax; these records crash nothing."""

    def run(self, jobs: Sequence[Job]) -> list[Outcome]:
        found: list[Outcome] = []
        for job in jobs:
            messages: list[dict[str, Any]] = []
            child._examine(job.to_json(), messages.append)
            outcomes = outcomes_of(job.record, messages)
            assert outcomes is not None
            found += outcomes
        return found


def golden_of(tmp_path: Path, built: Built) -> Outcome:
    """Return the outcome of a record's golden check, which is made without a child."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "Children", InThisProcess)
        (outcome,) = goldens(report_on(tmp_path, built))
    return outcome


# --- executables ----------------------------------------------------------------------------------


@pytest.mark.process
def test_an_honest_executable_passes(tmp_path: Path) -> None:
    (outcome,) = goldens(report_on(tmp_path, honest()))
    assert outcome == Outcome("golden", f"f cpu:{packages.ISA}:1", Status.PASS)
    assert golden_of(tmp_path / "here", honest()) == outcome


@pytest.mark.process
def test_last_bits_are_within_the_tolerance(tmp_path: Path) -> None:
    """As code with FMA and code without it differ; the report says how they are compared."""
    built = packages.build("f", half, X)
    (aval,) = built.record.signature.leaves
    x = np.nextafter(seeded(0, aval), np.float32(2))
    report_on(tmp_path, with_golden(built, outputs_of(half, x)))
    printed = run("verify", tmp_path / "_aot").stdout
    assert "golden: equal within the tolerance of each dtype, not bit for bit" in printed


@pytest.mark.parametrize("kind", ["native", "portable"])
@pytest.mark.process
def test_another_function_under_the_same_signature(tmp_path: Path, kind: str) -> None:
    """Every digest is fresh, and the shapes are right: only the numbers are not."""
    mine, other = honest(), packages.build("f", third, X)
    if kind == "portable":
        path = mine.record.golden.outputs.path
        exported = packages.portable(mine, half)
        exported = dataclasses.replace(
            exported, record=dataclasses.replace(exported.record, provenance={"jax": "0.10.0"})
        )
        mine = dataclasses.replace(exported, blobs={**exported.blobs, path: mine.blobs[path]})
        other = packages.portable(other, third)
    swapped = wheels.with_other_bytes(mine, wheels.bytes_of(other))
    report = report_on(tmp_path, swapped)
    (load,) = (o for o in report.outcomes if o.check == "load")
    assert load.status is Status.PASS
    if kind == "portable":
        readers = f"written by jax 0.10.0; read by jax 0.10.0 to {jax.__version__}; "
        assert load.reasons[0].startswith(readers)
    (outcome,) = goldens(report)
    (line, verdict) = outcome.reasons
    assert outcome.status is Status.FAIL
    assert line.startswith("result['y']: 6 of 6 sampled elements differ; the worst is [")
    assert ": expected " in line
    assert ", found " in line
    assert ", tolerance " in line
    assert verdict == VERDICT
    assert report.passed is False


def test_given_inputs_are_used(tmp_path: Path) -> None:
    x = np.full((2, 3), 8, np.float32)
    built = packages.build("f", half, X)
    given = with_golden(built, outputs_of(half, x), [(0, serialize({"constant": x}))])
    assert golden_of(tmp_path, given).status is Status.PASS
    wrong = with_golden(built, outputs_of(half, x), [(0, serialize({"constant": x + 1}))])
    assert golden_of(tmp_path / "wrong", wrong).status is Status.FAIL


def test_keys_and_a_donated_input(tmp_path: Path) -> None:
    def draw(key: Any, x: Any) -> Any:
        return jax.random.normal(key, (3,)) + x, jax.random.split(key, 2)

    args = {"key": jax.random.key(0), "x": np.zeros(3, np.float32)}
    built = packages.build("draw", draw, args, donate=["x"])
    key, x = (seeded(leaf, aval) for leaf, aval in enumerate(built.record.signature.leaves))
    number, keys = draw(jax.random.wrap_key_data(key), x)
    outputs = serialize(
        {"0": np.asarray(number), "1": np.asarray(jax.random.key_data(keys)).reshape(-1)}
    )
    assert golden_of(tmp_path, with_golden(built, outputs)).reasons == ()


def test_what_has_no_golden_outputs_says_why(tmp_path: Path) -> None:
    built = packages.build("f", half, X)
    outcome = golden_of(tmp_path, built)
    assert (outcome.status, outcome.reasons) == (Status.NOT_CHECKED, ("it has no golden outputs",))
    record = dataclasses.replace(built.record, provenance={"golden": "too large"})
    outcome = golden_of(tmp_path / "why", dataclasses.replace(built, record=record))
    assert outcome.reasons == ("it has no golden outputs: too large",)


@pytest.mark.process
def test_what_is_not_loaded_is_not_called(tmp_path: Path) -> None:
    refused = golden_of(tmp_path, honest().replace(jaxlib="0.0.1"))
    assert refused.status is Status.NOT_CHECKED
    broken = wheels.with_other_bytes(honest(), b"no executable" * 50)
    (outcome,) = goldens(report_on(tmp_path / "broken", broken))
    assert (outcome.status, outcome.reasons) == (Status.NOT_CHECKED, ("it was not loaded",))


# --- hostile golden outputs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        (b"", "the golden outputs cannot be read"),
        (outputs_of(half, X["x"])[:-3], "the golden outputs cannot be read"),
        (b"\xff" * 64, "the golden outputs cannot be read"),
        (serialize({}), "expected golden outputs of 2 results, found 0 of others"),
        (serialize({"0": np.zeros(1), "x": np.zeros(6)}), "of 2 results, found 2 of others"),
        (
            serialize({"0": np.zeros(1, np.int32), "1": np.zeros(5, np.float32)}),
            "golden output 1: expected 6 elements of float32, found float32[5]",
        ),
        (
            serialize({"0": np.zeros(1, np.int32), "1": np.zeros((6, 1, 1), np.float32)}),
            "golden output 1: expected 6 elements of float32, found float32[6, 1, 1]",
        ),
    ],
)
def test_golden_outputs_that_do_not_fit_fail(tmp_path: Path, outputs: bytes, reason: str) -> None:
    outcome = golden_of(tmp_path, with_golden(packages.build("f", half, X), outputs))
    assert outcome.status is Status.FAIL
    assert reason in outcome.reasons[0]


@pytest.mark.parametrize(
    "data", [b"", b"\x00" * 30, serialize({"constant": np.zeros(7)}), serialize({"x": np.zeros(6)})]
)
def test_given_inputs_that_do_not_fit_fail(tmp_path: Path, data: bytes) -> None:
    built = packages.build("f", half, X)
    outcome = golden_of(tmp_path, with_golden(built, outputs_of(half, X["x"]), [(0, data)]))
    assert outcome.status is Status.FAIL
    assert "one tensor 'constant' of f32[2,3]" in outcome.reasons[0]


# --- children -------------------------------------------------------------------------------------

SAYS_LOADED = (
    """print('{"job": 0}\\n{"stage": "load"}\\n"""
    """{"check": "load", "status": "PASS", "reasons": []}\\n{"stage": "golden"}', flush=True)"""
)


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [
        ("os.abort()", Status.CRASHED, "the child process died of SIGABRT"),
        ("HANG", Status.TIMED_OUT, TOO_LONG),
    ],
)
@pytest.mark.process
def test_a_death_while_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, status: Status, reason: str
) -> None:
    end = end.replace("HANG", hanging(tmp_path, monkeypatch))
    monkeypatch.setattr(process, "_BOOTSTRAP", f"import os, signal; {SAYS_LOADED}; {end}")
    report = report_on(tmp_path, honest(), timeout=LIMIT)
    assert [o.status for o in report.outcomes if o.check == "load"] == [Status.PASS]
    (outcome,) = goldens(report)
    assert outcome.status is status
    assert reason in outcome.reasons[0]


# --- numbers --------------------------------------------------------------------------------------


def compared(
    want: Any, have: Any, platform: str = "cpu", spread: float = 0.0, **changes: Any
) -> list[str]:
    built = packages.build("f", lambda x: x, X)
    tolerance = {name: changes.pop(name) for name in ("rtol", "atol") if name in changes}
    record: Record = with_golden(built, b"", **tolerance).record
    record = dataclasses.replace(record, provenance=changes)
    have = np.asarray(have)
    want = np.asarray(want, have.dtype).reshape(-1)
    wanted = Wanted(want, sample_indices(have.size), spread=spread)
    return differences(record, [have], [wanted], platform)


def test_near_numbers_are_equal() -> None:
    x = np.array([1, -2, 0, 3e-9, np.nan, np.inf], np.float32)
    assert compared(x, x * np.float32(1 + 5e-5)) == []
    # What is small for its array may be off by as much as the others.
    assert compared(x, x + np.float32(1e-5)) == []
    assert compared(x, x * np.float32(1.01)) != []
    assert compared(x, x * np.float32(1.01), "cuda") == []
    assert compared(x, x * np.float32(1.01), floats=["bfloat16", "float32"]) == []
    assert compared(x, np.nan_to_num(x)) != []
    assert compared(x, -x) != []
    assert compared(x, x * np.float32(1.01), rtol=0.02) == []
    assert compared(x, x + np.float32(1), atol=1.5) == []
    # What rounded arguments move is rounding, up to a tenth of the result.
    assert compared(x, x + np.float32(0.01)) != []
    assert compared(x, x + np.float32(0.01), spread=1e-3) == []
    assert compared(x, x + np.float32(0.5), spread=1.0) != []


def test_an_infinity_is_no_other_number() -> None:
    x = np.array([1, np.inf], np.float32)
    assert compared(x, x) == []
    (line, _) = compared(x, np.array([1, 5], np.float32))
    assert "the worst is [1]: expected inf, found 5, tolerance 0" in line
    assert compared(x, np.array([1, -np.inf], np.float32), rtol=0.5, atol=9.0) != []
    assert compared(np.array([1, 5], np.float32), x) != []


@pytest.mark.parametrize("coarse", ["float8_e8m0fnu", "float4_e2m1fn", "float8_e5m2", "bfloat16"])
def test_coarse_floats_on_the_way_do_not_let_zeros_pass(coarse: str) -> None:
    x = np.linspace(-2, 2, 64, dtype=np.float32)
    floats = [coarse, "float32"]
    assert compared(x, x * np.float32(1.01), floats=floats) == []
    for wrong in (x * 0, x * np.float32(1.5), x[::-1].copy()):
        assert compared(x, wrong, floats=floats) != []


def test_whole_numbers_are_exact() -> None:
    big = np.array([2**53 + 1, 5], np.uint64)
    assert compared(big, big) == []
    (line, _) = compared(big, np.array([2**53, 5], np.uint64))
    assert "expected 9007199254740993, found 9007199254740992, tolerance 0" in line
    assert compared([5, 6], np.array([5, 7], np.int8), rtol=1.0) != []
    assert compared([5, 6], np.array([10, 12], np.int32), "cuda") != []
    assert compared([5, 6], np.array([5, 7], np.int8), atol=1.0) != []
    assert compared([True, False], np.array([True, True])) != []
    assert compared([1], np.array([2], ml_dtypes.int4)) != []
    # Rounding of floats may decide an integer, but not a boolean that anyone relies on.
    rounded = {"floats": ["float32"], "atol": 1.0}
    assert compared([5, 6], np.array([5, 7], np.int8), **rounded) == []
    assert compared([-128], np.array([127], np.int8), floats=["float32"], atol=200) != []
    assert compared([True, False], np.array([True, True]), **rounded) != []


@pytest.mark.parametrize("wrong", ["doubled", "one"])
def test_integers_of_a_matmul_are_exact(tmp_path: Path, wrong: str) -> None:
    """Twice the right number, as an untuned GPU kernel gave, and one that no sample has."""

    def product(a: Any, b: Any) -> Any:
        axes = (((1,), (0,)), ((), ()))
        return jax.lax.dot_general(a, b, axes, preferred_element_type=jnp.int32)

    zeros = np.zeros((128, 128), np.int8)
    built = packages.build("product", product, {"a": zeros, "b": zeros})
    right = np.asarray(product(*map(seeded, range(2), built.record.signature.leaves)))
    assert golden_of(tmp_path, with_golden(built, serialize(samples([right], [])))).reasons == ()
    other = right * 2 if wrong == "doubled" else right.copy()
    other[0, np.setdiff1d(range(128), sample_indices(right.size))[0]] += wrong == "one"
    outcome = golden_of(tmp_path / "wrong", with_golden(built, serialize(samples([other], []))))
    assert outcome.status is Status.FAIL
    expected = {
        "doubled": "result: 4096 of 4096 sampled elements differ",
        "one": "result: its 4096 sampled elements are equal, and others are not",
    }
    assert outcome.reasons[0].startswith(expected[wrong])


# --- the zoo --------------------------------------------------------------------------------------


@pytest.mark.process
def test_every_function_of_the_zoo_returns_what_it_did(zoo: Path) -> None:
    folder = zoo / "zoo" / "_aot"
    index = Index.open((folder / "index").read_bytes(), "index")
    records = [list(index.records(function.name)) for function in index.functions()]
    assert all(any(record.golden for record in of_one) for of_one in records)
    report = check(folder, load=True, timeout=LIMIT)
    assert sum(o.status is Status.PASS for o in goldens(report)) >= len(records)
    assert [o for o in report.outcomes if o.status.is_failure] == []
