"""Preloading: a failure stops no other, and what runs side by side, in turns or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from support.packages import build, write
from support.processes import fresh

import aotbuild
from aotbuild.errors import AotbuildError, DamagedBlob
from aotbuild.format.record import Record
from aotbuild.runtime.buffers import zeros
from aotbuild.runtime.fitting import Selected
from aotbuild.runtime.jax.placement import Placement
from aotbuild.runtime.package import Stats
from aotbuild.runtime.preload import preload
from aotbuild.runtime.select import Grade, Verdict

X = np.arange(4, dtype=np.float32)


class FakeLoader:
    """Gives executables that do what they are told instead of running."""

    def __init__(self, run: Callable[[], list[Any]]) -> None:
        self.run_on_zeros = run

    def load_bytes(self, record: Record, devices: Any) -> bool:
        return True

    def load(self, verdict: Verdict, placement: Any) -> FakeLoader:
        return self


class Told:
    def __init__(self) -> None:
        self.records: list[Record] = []

    def __call__(self, record: Record, executable: Any, outputs: list[Any]) -> None:
        self.records.append(record)


def job(record: Record, digest: str = "0") -> Selected:
    record = replace(record, blob=replace(record.blob, sha256=digest * 64))
    return Selected(Verdict(record, Grade.OPTIMAL), Placement((jax.devices("cpu")[0],), False))


@pytest.fixture(scope="module")
def record() -> Record:
    return build("f", lambda x: x * 2, {"x": X}).record


class TestFailures:
    def test_one_does_not_stop_the_others(self, tmp_path: Path) -> None:
        built = [build(name, lambda x: x * 2, {"x": X + n}) for n, name in enumerate("fg")]
        built[1] = build("g", lambda x: x * 3, {"x": X})
        folder = write(tmp_path, built)
        (folder / built[1].record.blob.path).write_bytes(b"damaged")
        library = aotbuild.load(folder)
        with pytest.raises(DamagedBlob):
            library.preload(prime=True)
        np.testing.assert_array_equal(library.f(X), X * 2)
        assert (library.stats()["primed"], library.stats()["misses"]) == (1, 0)

    def test_all_are_named(self, tmp_path: Path) -> None:
        built = [
            build("f", lambda x: x * 2, {"x": X}),
            build("g", lambda x: x * 3, {"x": X}),
        ]
        folder = write(tmp_path, built)
        for item in built:
            (folder / item.record.blob.path).write_bytes(b"damaged")
        with pytest.raises(AotbuildError) as caught:
            aotbuild.load(folder).preload()
        text = str(caught.value)
        assert text.startswith("2 executables could not be preloaded")
        assert all(item.record.blob.path in text for item in built)
        assert isinstance(caught.value.__cause__, DamagedBlob)

    def test_what_raises_on_zeros(self, record: Record) -> None:
        def fail() -> list[Any]:
            raise FloatingPointError("0 / 0")

        stats = Stats()
        with pytest.raises(AotbuildError) as caught:
            preload(FakeLoader(fail), [job(record)], stats, 1, told := Told())
        assert str(caught.value).splitlines() == [
            f"{record}: it cannot be run on zeros",
            "  found    FloatingPointError: 0 / 0",
            "Leave its function out: name the others, preload('this', 'that', prime=True).",
        ]
        assert (stats.to_dict()["primed"], told.records) == (0, [])


class TestOrder:
    def test_programs_over_a_mesh_run_one_at_a_time(self, record: Record) -> None:
        alone, together = threading.Lock(), []

        def run() -> list[Any]:
            if not alone.acquire(blocking=False):
                together.append(1)
                return []
            for _ in range(100):
                threading.Event().wait(0)  # lets the others go on, if they may
            alone.release()
            return []

        meshed = replace(record, requires=replace(record.requires, devices=2))
        jobs = [job(meshed, digest) for digest in "123"]
        assert preload(FakeLoader(run), jobs, Stats(), 3, Told()) == 3
        assert together == []

    def test_programs_on_one_device_run_side_by_side(self, record: Record) -> None:
        meeting, caller = threading.Barrier(2, timeout=60), threading.current_thread()

        def run() -> list[Any]:
            if threading.current_thread() is not caller:
                meeting.wait()
            return []

        jobs = [job(record, digest) for digest in "123"]
        assert preload(FakeLoader(run), jobs, Stats(), 3, Told()) == 3

    @pytest.mark.parametrize(("once", "here"), [(False, "2"), (True, "123")])
    def test_the_calling_thread_runs_the_largest_or_each(
        self, record: Record, once: bool, here: str
    ) -> None:
        ran = self.ran(record, once=once)
        assert sorted(name for name, _ in ran) == ["1", "2", "3"]
        assert sorted(name for name, in_caller in ran if in_caller) == [*here]

    @pytest.mark.parametrize(("once", "here"), [(False, ""), (True, "123")])
    def test_a_thread_that_serves_no_calls(self, record: Record, once: bool, here: str) -> None:
        ran = self.ran(record, once=once, goes_on=lambda: True)
        assert sorted(name for name, in_caller in ran if in_caller) == [*here]

    def ran(self, record: Record, **options: Any) -> list[tuple[str, bool]]:
        """Preload executables of several sizes; return which ran, and whether in this thread."""
        ran: list[tuple[str, bool]] = []
        caller = threading.current_thread()

        class Sized(FakeLoader):
            def load(self, verdict: Verdict, placement: Any) -> FakeLoader:
                name = verdict.record.blob.sha256[0]

                def run() -> list[Any]:
                    ran.append((name, threading.current_thread() is caller))
                    return []

                return FakeLoader(run)

        def of_size(digest: str, size: int) -> Selected:
            leaves = tuple(replace(aval, shape=(size,)) for aval in record.signature.leaves)
            signature = replace(record.signature, leaves=leaves)
            return job(replace(record, signature=signature), digest)

        jobs = [of_size("1", 4), of_size("2", 400), of_size("3", 40)]
        assert preload(Sized(list), jobs, Stats(), 2, Told(), **options) == 3
        return ran

    def test_what_several_processes_do_together_is_only_loaded(self, record: Record) -> None:
        ran: list[int] = []
        requires = replace(record.requires, devices=2, processes=2)
        told, loader = Told(), FakeLoader(lambda: ran.append(1) or [])
        assert preload(loader, [job(replace(record, requires=requires))], Stats(), 1, told) == 1
        assert (ran, told.records) == ([], [])


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
@pytest.mark.process
def test_at_the_end_of_the_process(tmp_path: Path, arrays: str) -> None:
    """From Python 3.12 on no thread can be started there: it is done without."""
    code = """
import atexit, json, sys
import aotbuild
library = aotbuild.load(sys.argv[1], arrays=sys.argv[2])
atexit.register(lambda: print(json.dumps(library.preload())))
"""
    functions = [("f", lambda x: x * 2), ("g", lambda x: x * 3)]
    built = [build(name, function, {"x": X}) for name, function in functions]
    assert fresh(code, str(write(tmp_path, built)), arrays) == 2


@pytest.mark.parametrize("prime", [True, "once"])
@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_zeros_that_are_donated_stay_zeros(tmp_path: Path, arrays: str, prime: Any) -> None:
    x = np.ones((512, 512), np.float32)
    change = lambda x, i: x.at[i].set(1.0)  # noqa: E731
    built = [
        build("change", change, {"x": x, "i": np.int32(0)}, donate=["x"]),
        build("add", lambda x: x + 1, {"x": x}, donate=["x"]),
    ]
    library = aotbuild.load(write(tmp_path, built), arrays=arrays)
    assert library.preload(prime=prime) == 2
    np.testing.assert_array_equal(np.asarray(library.add(library.place(x))), x + 1)
    assert not zeros(x.shape, x.dtype).any()


@pytest.mark.parametrize("prime", ["True", '"once"'])
@pytest.mark.parametrize("arrays", ["jax", "numpy"])
@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_zeros_take_no_memory(tmp_path: Path, arrays: str, prime: str) -> None:
    code = f"""
import json, sys
import aotbuild

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) // 1024

library = aotbuild.load(sys.argv[1], arrays=sys.argv[2])
library.preload()
before = peak()
library.preload(prime={prime})
print(json.dumps([library.stats()["primed"], peak() - before]))
"""
    large = {"w": np.zeros((3, 8 << 20), np.float32), "x": X}  # 96 MB
    built = build("f", lambda w, x: w.max() + x, large)
    primed, more = fresh(code, str(write(tmp_path, [built])), arrays)
    assert primed == 1
    assert more < 32


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_a_thread_has_the_64_bit_mode_of_its_caller(tmp_path: Path, arrays: str) -> None:
    with jax.enable_x64(True):
        wide = build("f", lambda x: x * 2, {"x": np.zeros(2)})
        library = aotbuild.load(write(tmp_path, [wide]), arrays=arrays)  # type: ignore[call-overload]
        assert library.preload(prime=True, wait=False).wait(60) == 1


@pytest.mark.parametrize("option", [{"prime": "twice"}, {"threads": 0}, {"threads": "2"}])
def test_options_that_mean_nothing(tmp_path: Path, option: dict[str, Any]) -> None:
    library = aotbuild.load(write(tmp_path, [build("f", lambda x: x, {"x": np.ones(2, "f4")})]))
    with pytest.raises(AotbuildError, match=f"{next(iter(option))}=…"):
        library.preload(**option)
    assert library.stats()["loaded"] == 0


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_what_cannot_be_placed(tmp_path: Path, arrays: str) -> None:
    package = write(tmp_path, [build("f", lambda x: x, {"x": np.ones(2, "f4")})])
    with pytest.raises(AotbuildError, match=r"place\(…\): "):
        aotbuild.load(package, arrays=arrays).place({"w": "text"})  # type: ignore[call-overload]
