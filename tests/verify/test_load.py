"""Loading in child processes: what agrees passes, what lies fails, a crash is only reported."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attacks import wheels
from attacks.wheels import Built, check, failures, loads
from support import packages
from support.forks import forked
from support.hang import LIMIT, TOO_LONG, hanging
from support.processes import fresh

from aotbuild.verify import children as process
from aotbuild.verify.outcome import Outcome, Status

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def built() -> list[Built]:
    return wheels.make_records()


def folder(tmp_path: Path, built: Iterable[Built]) -> Path:
    return wheels.write_folder(tmp_path / "demo" / "_aot", wheels.aot_files(built))


def load_one(tmp_path: Path, built: Built, **options: Any) -> Outcome:
    report = check(folder(tmp_path, [built]), load=True, **options)
    assert not [o for o in report.outcomes if o.status.is_failure and o.check != "load"]
    (outcome,) = loads(report).values()
    return outcome


def required(built: Built, **requires: Any) -> Built:
    return built.replace(**requires)


def test_an_honest_wheel_and_its_folder_pass(built: list[Built], tmp_path: Path) -> None:
    aot = wheels.aot_files(built)
    wheel = wheels.write_wheel(
        tmp_path / wheels.NAME, wheels.with_record(wheels.wheel_files(aot)).items()
    )
    for place in (wheel, folder(tmp_path, built)):
        report = check(place, load=True)
        assert failures(report) == {}
        assert [o.status for o in loads(report).values()] == [Status.PASS] * 3


def test_typed_keys_weak_types_and_unused_inputs(tmp_path: Path) -> None:
    import jax

    def draw(key: Any, scale: Any, unused: Any, flag: Any) -> Any:
        return jax.random.normal(key, (3,), jnp.bfloat16) * scale, jax.random.split(key, 2), ~flag

    args = {"key": jax.random.key(0), "scale": 2.0, "unused": np.zeros(3), "flag": np.ones(2, bool)}
    assert load_one(tmp_path, packages.build("draw", draw, args)).status is Status.PASS


def test_a_mesh_gets_its_devices(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, numpy as np; from support import packages as r\n"
        "b = r.build('f', lambda x: x * 2, {'x': np.zeros((4, 6), np.float32)},"
        " mesh={'a': 2, 'b': 2}, in_specs={'x': ('a', 'b')}, out_spec=('a', None))\n"
        "r.write(pathlib.Path(sys.argv[1]), [b])\n"
        "print('null')"
    )
    forked(code, str(tmp_path), devices=4)
    report = check(tmp_path / "_aot", load=True)
    (outcome,) = loads(report).values()
    assert (outcome.status, outcome.reasons) == (Status.PASS, ())


@pytest.mark.parametrize("index", [0, 2], ids=["native", "portable"])
def test_bytes_that_are_no_executable(built: list[Built], index: int, tmp_path: Path) -> None:
    outcome = load_one(tmp_path, wheels.with_other_bytes(built[index], b"no executable" * 50))
    assert outcome.status in (Status.FAIL, Status.CRASHED)
    assert index == 0 or f"jax {jax.__version__} cannot read what jax " in outcome.reasons[0]


@pytest.mark.parametrize(
    ("requires", "reason"),
    [
        ({"jaxlib": "0.0.1"}, "jaxlib: expected 0.0.1"),
        ({"custom_calls": (packages.CustomCall("mine", "user"),)}, "custom calls not reg"),
    ],
)
def test_what_does_not_fit_is_not_checked(
    built: list[Built], requires: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    item = required(built[0], **requires)
    files = wheels.aot_files([item])
    files["index"] = packages.write_index({"package": "demo"}, [item.function], [item.record])
    report = check(wheels.write_folder(tmp_path / "_aot", files), load=True)
    (outcome,) = loads(report).values()
    assert (outcome.status, report.passed) == (Status.NOT_CHECKED, True)
    assert outcome.reasons[0].startswith(reason)


def test_x64_is_set_as_the_record_needs_it(built: list[Built], tmp_path: Path) -> None:
    assert load_one(tmp_path, required(built[0], x64=True)).status is Status.PASS


def test_nothing_is_loaded_from_files_that_failed(built: list[Built], tmp_path: Path) -> None:
    place = folder(tmp_path, built)
    (place / "stray").touch()
    report = check(place, load=True)
    assert {o.reasons for o in loads(report).values()} == {
        ("its files failed; nothing of it is loaded",)
    }


# --- children that misbehave ----------------------------------------------------------------------


def misbehave(monkeypatch: pytest.MonkeyPatch, code: str, *, loading: bool = True) -> None:
    """Run code in the child instead of loading anything."""
    stage = """print('{"stage": "load"}', flush=True); """ if loading else ""
    start = f"""import os, signal, sys; print('{{"job": 0}}', flush=True); {stage}"""
    monkeypatch.setattr(process, "_BOOTSTRAP", f"{start}{code}")


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("os.kill(os.getpid(), 11)", Status.CRASHED, "died of SIGSEGV"),
        ("os._exit(3)", Status.CRASHED, "ended with exit code 3 and no result"),
        ("print('[[[['); os._exit(0)", Status.CRASHED, "no result"),
        ("""print('{"stage": []}\\n{"job": 0}\\n{"check": {}}')""", Status.CRASHED, "no result"),
        ("sys.stderr.write('x' * 100000); os.abort()", Status.CRASHED, "x" * 500),
        ("HANG", Status.TIMED_OUT, TOO_LONG),
        ("os.fork() or signal.pause(); HANG", Status.TIMED_OUT, TOO_LONG),
    ],
)
def test_misbehaviour_is_reported(
    built: list[Built],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    status: Status,
    reason: str,
) -> None:
    misbehave(monkeypatch, code.replace("HANG", hanging(tmp_path, monkeypatch)))
    outcome = load_one(tmp_path, built[0], timeout=LIMIT)
    assert outcome.status is status
    assert reason in outcome.reasons[0]


def test_a_death_before_loading_does_not_blame_the_executable(
    built: list[Built], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    misbehave(monkeypatch, "sys.stderr.write('bad flag'); os.abort()", loading=False)
    outcome = load_one(tmp_path, built[0])
    assert outcome.status is Status.NOT_CHECKED
    assert outcome.reasons[0] == (
        "the child process died of SIGABRT before it loaded the executable\nbad flag"
    )


class TestWithoutJax:
    """In a child where jax is not installed, the numpy backend loads and calls."""

    @pytest.fixture(autouse=True)
    def blocked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        code = (
            "import sys; sys.modules['jax'] = None; import aotbuild.verify.child as child; "
            "end = child.os._exit; child.os._exit = lambda code: end("
            "3 if any(n.startswith('jax.') for n in sys.modules) else code); "
        )
        blocked = process._BOOTSTRAP.replace("from aotbuild", f"{code}from aotbuild")
        monkeypatch.setattr(process, "_BOOTSTRAP", blocked)

    def test_what_is_native_is_loaded(self, built: list[Built], tmp_path: Path) -> None:
        report = check(folder(tmp_path, built), load=True)
        assert failures(report) == {}
        by_subject = loads(report)
        portable = by_subject.pop(str(built[2].record))
        assert [o.status for o in by_subject.values()] == [Status.PASS] * 2
        assert portable.status is Status.NOT_CHECKED
        reason = "jax is not installed here, which reads and compiles portable forms"
        assert portable.reasons == (reason,)

    def test_types_that_numpy_has_not(self, tmp_path: Path) -> None:
        def mix(x: Any, scale: Any, unused: Any, flag: Any) -> Any:
            return x.astype(jnp.float8_e4m3fn), x * scale, ~flag

        args = {"x": np.ones(3, jnp.bfloat16), "scale": 2.0}
        args |= {"unused": np.zeros(3), "flag": np.ones(2, bool)}
        assert load_one(tmp_path, packages.build("mix", mix, args)).status is Status.PASS

    def test_what_numpy_cannot_pass_is_not_checked(self, tmp_path: Path) -> None:
        import jax

        keyed = packages.build("draw", jax.random.bits, {"key": jax.random.key(0)})
        outcome = load_one(tmp_path, keyed)
        assert outcome.status is Status.NOT_CHECKED
        assert "a typed PRNG key needs load" in outcome.reasons[0]

    def test_several_devices_are_not_checked(self, built: list[Built], tmp_path: Path) -> None:
        outcome = load_one(tmp_path, required(built[0], devices=2))
        assert outcome.status is Status.NOT_CHECKED
        assert "a function over 2 devices needs load" in outcome.reasons[0]


def test_verify_itself_imports_no_jax(built: list[Built], tmp_path: Path) -> None:
    place = folder(tmp_path, built)
    code = (
        "import sys; from aotbuild.verify.api import verify; "
        f"r = verify({str(place)!r}); assert r.passed, r; "
        "assert not {'jax', 'jaxlib'} & set(sys.modules); print('true')"
    )
    assert fresh(code) is True
