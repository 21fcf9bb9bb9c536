"""The number of CPUs that loops are split for is the manifest's, whatever machine builds."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support import packages
from support.cli import invoke
from support.manifests import manifest
from support.processes import fresh
from support.projects import build, write_project

from aotbuild.build.jobs import make_jobs
from aotbuild.build.pack import Package
from aotbuild.build.plan import Plan, make_plan
from aotbuild.build.pool import WorkerPool
from aotbuild.errors import BuildError, ManifestError, PlanError
from aotbuild.platforms.cpu import cpu_count
from aotbuild.platforms.cpu.describe import PLATFORM
from aotbuild.toolchains.toolchain import Environment, Toolchain

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="others cannot be told a number")
ARCHITECTURE = os.uname().machine
REAL = len(os.sched_getaffinity(0))

MODEL = """
import os, subprocess, sys
def moved(x):
    return x * 2 + 1
def computed(x):
    for _ in range(40):
        x = x * x + 0.5
    return x
def asks(x):
    code = "import os; print(len(os.sched_getaffinity(0)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (os.environ["REAL_CPUS"] + "\\n", ""), done
    assert "PJRT_NPROC" not in os.environ
    return x
"""
FUNCTIONS = """
keep: {stages: [hlo], where: wheel}
defaults: {verify: {golden: never}, purity: skip}
functions:
  moved: {call: "proj.model:moved", args: [x: "f32[2048,1024]"]}
  computed: {call: "proj.model:computed", args: [x: "f32[2048,1024]"]}
"""


def project(root: Path, target: str = "cpu", functions: str = FUNCTIONS) -> Path:
    text = f"version: 1\npackage: proj\ntargets: [{target}]\n{functions}"
    return write_project(root, text, model=MODEL)


def parts(package: Package) -> dict[str, tuple[int, int]]:
    """Return for each function in how many parts its loop is, and what the record says."""
    found = {}
    for record in package.records:
        text = (package.folder / dict(record.stages)["hlo"].path).read_text()
        (split,) = re.findall(r'outer_dimension_partitions":\["(\d+)"\]', text) or ["1"]
        found[record.function] = int(split), record.provenance["cpus"]
    return found


def digests(package: Package) -> dict[str, str]:
    return {record.function: record.blob.sha256 for record in package.records}


@pytest.fixture
def one_cpu() -> Iterator[None]:
    """This process, and what it starts, may use one CPU only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture(autouse=True)
def no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_STORE", "off")


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return build(project(tmp_path_factory.mktemp("usual")))


@pytest.mark.process
class TestBuild:
    def test_without_a_word_loops_are_split_for_sixteen(self, usual: Package) -> None:
        assert parts(usual) == {"moved": (4, 16), "computed": (16, 16)}

    @pytest.mark.parametrize(("cpus", "moved"), [(1, 1), (64, 8)])
    def test_the_manifest_names_a_number(self, tmp_path: Path, cpus: int, moved: int) -> None:
        package = build(project(tmp_path, f"cpu: {{cpus: {cpus}}}"))
        assert parts(package) == {"moved": (moved, cpus), "computed": (cpus, cpus)}

    def test_a_system_that_loads_no_library_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(type(PLATFORM), "library", lambda *_: None)
        with pytest.raises(BuildError) as caught:
            build(project(tmp_path, "cpu: {cpus: 64}"))
        assert (
            "XLA splits loops for the CPUs that the compiler process finds: expected 64, found "
            f"{REAL}; the system did not load the library that was to answer (LD_PRELOAD)"
        ) in str(caught.value)

    def test_other_processes_find_the_real_number(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("REAL_CPUS", str(REAL))
        asks = 'functions: {asks: {call: "proj.model:asks", args: [x: "f32[2]"]}}\n'
        build(project(tmp_path, functions=asks))

    def test_variables_of_the_shell_and_the_manifest_change_nothing(
        self, usual: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NPROC", "3")
        functions = FUNCTIONS.replace("defaults: {", "defaults: {env: {PJRT_NPROC: '5'}, ")
        assert digests(build(project(tmp_path, functions=functions))) == digests(usual)


# Many object files, which threads finish in any order; and products, whose sums threads share.
MANY = """
import jax, jax.numpy as jnp
def deep(x):
    for i in range(12):
        x = jnp.sort(jnp.tanh(x * (i + 1.5)), axis=-1) + jnp.exp(x[::-1] / (i + 1)).cumsum(0)
    return x
def products(x, w):
    return jax.nn.softmax(jnp.tanh(x @ w) @ w.T).sum(0), (x @ x.T).mean()
"""
OF_MANY = """
version: 1
package: proj
targets: [cpu, portable]
functions:
  deep: {call: "proj.model:deep", args: [x: "f32[256,256]"]}
  products: {call: "proj.model:products", args: [x: "f32[256,512]", w: "f32[512,512]"]}
"""


def files_of(root: Path) -> dict[str, bytes]:
    package = build(write_project(root, OF_MANY, model=MANY))
    return {str(f.relative_to(package.folder)): f.read_bytes() for f in package.files()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return files_of(tmp_path_factory.mktemp("expected"))


@pytest.mark.process
class TestBytes:
    def test_one_cpu_makes_the_same_files(
        self, expected: dict[str, bytes], tmp_path: Path, one_cpu: None
    ) -> None:
        assert files_of(tmp_path) == expected

    @pytest.mark.parametrize("jobs", ["1", "2"])
    def test_jobs_change_no_byte(
        self,
        expected: dict[str, bytes],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        jobs: str,
    ) -> None:
        monkeypatch.setenv("AOTBUILD_JOBS", jobs)
        assert files_of(tmp_path) == expected

    def test_the_memory_limit_changes_no_byte(
        self, expected: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AOTBUILD_JOBS", "2")
        monkeypatch.setattr(WorkerPool, "__post_init__", no_memory)
        assert files_of(tmp_path) == expected


def no_memory(pool: WorkerPool) -> None:
    """Let a pool find that one compiler is all there is room for."""
    pool.memory = lambda: 0
    pool._budget = 0


RESULTS = """
import json, os, sys
import numpy as np
os.sched_setaffinity(0, json.loads(sys.argv[1]))
import aotbuild
from hashlib import sha256
x = np.random.default_rng(0).standard_normal((2048, 1024), np.float32)
print(json.dumps([
    sha256(np.asarray(getattr(aotbuild.load(place, arrays=arrays), name)(x)).tobytes()).hexdigest()
    for place in sys.argv[2:] for arrays in ("jax", "numpy") for name in ("moved", "computed")
]))
"""


@pytest.mark.process
def test_more_and_fewer_cpus_than_it_was_built_for_give_the_same_bits(
    usual: Package, tmp_path: Path
) -> None:
    built = [build(project(tmp_path / str(n), f"cpu: {{cpus: {n}}}")).folder for n in (1, 64)]
    folders = [str(folder) for folder in (usual.folder, *built)]
    here = sorted(os.sched_getaffinity(0))
    one, all_of_them = (fresh(RESULTS, str(cpus), *folders) for cpus in (here[:1], here))
    assert one == all_of_them
    assert len({*one[::2]}) == len({*one[1::2]}) == 1


@pytest.mark.process
@pytest.mark.parametrize("cpus", [1, 7, 8, 16, 63, 1000, 1024])
def test_the_library_answers_for_libc(cpus: int) -> None:
    code = "from aotbuild.platforms.cpu.cpu_count import found; print(found())"
    file = os.memfd_create("library")
    os.write(file, cpu_count.library(cpus, ARCHITECTURE))
    environment = {**os.environ, "LD_PRELOAD": f"/proc/self/fd/{file}"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=environment, pass_fds=[file], capture_output=True, text=True, check=True
    )
    os.close(file)
    assert (done.stdout, done.stderr) == (f"{cpus}\n", "")


def test_both_architectures_have_a_library() -> None:
    machines = [cpu_count.library(16, name)[18] for name in ("x86_64", "aarch64")]
    assert machines == [62, 183]


def plan(targets: str, system: str = "linux") -> Plan:
    toolchain = Toolchain("0.12.0", "0.12.0", "3.13.1")
    machine = Environment((toolchain,), "x86_64", "x86-64-v3", "any", "0.1", system)
    return make_plan(manifest(f"targets: [{targets}]\n"), machine)


class TestPlan:
    def test_each_number_has_its_process(self) -> None:
        two, many = "{isa: x86-64-v3, cpus: 2}", "{isa: x86-64-v4, cpus: 64}"
        jobs = make_jobs(plan(f"portable, {{cpu: {two}}}, {{cpu: {many}}}").units)
        found = [(s.environment({})["PJRT_NPROC"], list(map(str, j.targets))) for s, j, _ in jobs]
        assert found == [
            ("2", ["portable:cpu,cuda,tpu:1", "cpu:x86-64-v3:1"]),
            ("64", ["cpu:x86-64-v4:1"]),
        ]

    def test_a_level_has_one_number(self) -> None:
        twice = "{cpu: {isa: x86-64-v3, cpus: 2}}, {cpu: {isa: x86-64-v3, cpus: 64}}"
        with pytest.raises(ManifestError, match="duplicate target 'cpu x86-64-v3'"):
            plan(twice)

    @pytest.mark.parametrize("cpus", [0, 1025])
    def test_bounds(self, cpus: int) -> None:
        with pytest.raises(ManifestError, match="cpus"):
            plan(f"{{cpu: {{cpus: {cpus}}}}}")

    def test_other_systems_cannot_be_told(self) -> None:
        with pytest.raises(PlanError) as caught:
            plan("{cpu: {isa: x86-64-v3, cpus: 64}}", "darwin")
        assert str(caught.value) == (
            "aot.yaml: targets: cpu: cpus: 64 cannot be set here: XLA splits loops for the CPUs of "
            "the machine that builds, and only on Linux (x86-64, aarch64) can it be told another "
            "number; build there, or leave cpus out"
        )

    def test_they_split_for_their_own(self) -> None:
        ((settings, _, _),) = make_jobs(plan("cpu", "darwin").units)
        assert "PJRT_NPROC" not in settings.environment({})
        assert settings.library is None


class TestShown:
    def test_a_plan_names_the_number(self, tmp_path: Path) -> None:
        root = project(tmp_path, "portable, cpu: {cpus: 64}")
        text = invoke("plan", str(root / "aot.yaml")).stdout
        (line,) = [line for line in text.splitlines() if line.startswith("cpus:")]
        assert re.fullmatch(r"cpus:      64 for cpu:\S+:1", line)
        units = json.loads(invoke("plan", str(root / "aot.yaml"), "--json").stdout)["units"]
        found = {unit["target"].partition(":")[0]: unit["details"] for unit in units}
        assert found == {"portable": {}, "cpu": {"cpus": 64}}

    @pytest.mark.parametrize("built", [REAL, REAL + 1])
    def test_doctor_is_silent_about_enough(self, tmp_path: Path, built: int) -> None:
        assert doctor(tmp_path, built) == []

    def test_doctor_compares_the_host(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
        (note,) = doctor(tmp_path, 2)
        assert note == (
            f"cpu:{packages.ISA}:1 was built for 2 CPUs, this host has 64: XLA splits a large loop "
            "into 2 parts at most; to change it, build with cpu: {cpus: 64}"
        )


def doctor(root: Path, built_for: int) -> list[str]:
    """Return the notes about a package that was built for so many CPUs."""
    item = packages.build("double", lambda x: x * 2, {"x": np.zeros(3, np.float32)})
    record = dataclasses.replace(item.record, provenance={"cpus": built_for})
    folder = packages.write(root, [dataclasses.replace(item, record=record)])
    text = invoke("doctor", str(folder)).stdout
    notes: list[str] = json.loads(invoke("doctor", str(folder), "--json").stdout)["notes"]
    assert [line for line in text.splitlines() if line.startswith("note:")] == [
        f"note: {note}" for note in notes
    ]
    return notes
