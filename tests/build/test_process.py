"""Workers that die, hang, or run code that takes their process for its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from support.forks import forked
from support.projects import MANIFEST, build, write_project

from aotbuild.build.jobs import make_jobs
from aotbuild.build.plan import BuildUnit, make_plan
from aotbuild.build.progress import UnitDone
from aotbuild.build.project import find_sources
from aotbuild.build.protocol import VERSION, Hello, Ready, to_line
from aotbuild.build.run_units import BuildOptions, run_units
from aotbuild.build.worker_process import NotStarted, Worker
from aotbuild.build.worker_settings import Settings
from aotbuild.manifest import load_manifest, parse_manifest
from aotbuild.toolchains.toolchain import Toolchain, probe

pytestmark = pytest.mark.process

CRASHES = """
import os, signal, sys, time
def crash(x):
    print("on the way down")
    os.kill(os.getpid(), signal.SIGSEGV)
def leave(x): os._exit(5)
def hang(x): time.sleep(600)
def killed(x): os.kill(os.getpid(), signal.SIGKILL)
def divided(x): os.kill(os.getpid(), signal.SIGFPE)
def unusual(x): os.kill(os.getpid(), signal.SIGRTMIN + 3)
def greedy(x): bytearray(1 << 62)
def native_greed(x):
    sys.stderr.write("terminate called after throwing an instance of 'std::bad_alloc'\\n")
    os.abort()
def orphans(x):
    import pathlib, subprocess
    child = subprocess.Popen(["sleep", "600"])
    pathlib.Path(os.environ["CHILD"]).write_text(str(child.pid))
    os.abort()
def in_lowering(x):
    import jax
    from jax.interpreters import mlir
    died = jax.extend.core.Primitive("died")
    died.def_abstract_eval(lambda aval: aval)
    mlir.register_lowering(died, lambda ctx, x: os.abort())
    return died.bind(x)
def fine(x): return x + 1
"""
# Everything a program may do to its process when it believes to be alone in it.
NOISY = """
import os, sys, atexit, logging
print("imported")
os.write(1, b'{"type": "done"}\\n')
sys.stdout.write('{"type": "failed", "target": "cpu", "stage": "x", "error": "forged"}\\n')
assert sys.stdin.read() == "" and os.read(0, 100) == b""
sys.stdin.close()
sys.stdin = open(os.devnull)
os.system("echo from a child; cat")
os.chdir("/")
sys.path.clear()
sys.argv[:] = ["other"]
logging.basicConfig(stream=sys.stdout, level=logging.DEBUG)
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=7 --no_such_flag"
os.environ["JAX_PLATFORMS"] = "nothing"
atexit.register(lambda: os.write(1, b"bye"))
import jax
jax.config.update("jax_log_compiles", True)
jax.config.update("jax_compilation_cache_dir", "/nonexistent/cache")
def noisy(x):
    print("tracing", x)
    os.write(1, b"not json\\n" * 1000)
    sys.stdout.flush()
    sys.stdout = sys.stderr = open(os.devnull, "w")
    return x * len(jax.devices())
def other(x): return x - 1
"""
X = "args: [x: 'f32[3]']"
ONE = f"version: 1\npackage: proj\nfunctions:\n  f:\n    call: proj.mod:f\n    {X}\n"


def project(root: Path, module: str, *names: str, targets: str = "[cpu]") -> Path:
    functions = "".join(f"  {name}:\n    call: proj.mod:{name}\n    {X}\n" for name in names)
    manifest = f"version: 1\npackage: proj\ntargets: {targets}\nfunctions:\n{functions}"
    return write_project(root, manifest, mod=module)


def run(
    root: Path, jobs: int | None = None, interpreters: Mapping[str, Path] | None = None
) -> dict[str, UnitDone]:
    """Run every unit; `interpreters` are those of some functions."""
    manifest = load_manifest(root / MANIFEST)
    plan = make_plan(manifest, probe())
    units = [with_interpreter(unit, interpreters or {}) for unit in plan.units]
    plan = replace(plan, units=tuple(units))
    blobs = root / "blobs-here"
    blobs.mkdir()
    sources = find_sources(root, manifest.package)
    done = run_units(plan, sources, blobs, lambda event: None, BuildOptions(jobs=jobs))
    return {result.unit.name: result for result in done.results}


def with_interpreter(unit: BuildUnit, interpreters: Mapping[str, Path]) -> BuildUnit:
    name = unit.name
    if name not in interpreters:
        return unit
    toolchain = replace(unit.toolchain, python=f"3.{name}", interpreter=interpreters[name])
    return replace(unit, toolchain=toolchain)


def test_each_way_to_die_costs_one_unit_and_is_told_in_words(tmp_path: Path) -> None:
    names = ("killed", "divided", "unusual", "greedy", "native_greed", "in_lowering")
    root = project(tmp_path, CRASHES, "crash", *names, "fine", "leave")
    found = run(root)
    assert found["fine"].record is not None
    told = {name: str(each.failure) for name, each in found.items()}
    assert "died of SIGSEGV\n" in told["crash"]
    assert "the end of its log:" in told["crash"]
    assert f'"{root}/proj/mod.py", line 5 in crash' in told["crash"]
    assert "on the way down" in told["crash"]
    assert "ended with exit code 5" in told["leave"]
    assert (
        "the compiler process was killed (SIGKILL), probably by the system for want of memory; "
        "fewer compilers at a time leave more to each: --jobs, or AOTBUILD_JOBS\n"
    ) in told["killed"]
    assert "died of SIGFPE\n" in told["divided"]
    assert "died of signal 37\n" in told["unusual"]
    assert "MemoryError" in told["greedy"]
    assert "died of SIGABRT: it ran out of memory; fewer compilers" in told["native_greed"]
    assert "in_lowering() for cpu" in told["in_lowering"]
    assert ": compile:\n" in told["in_lowering"]
    assert "died of SIGABRT\n" in told["in_lowering"]


def test_what_a_dead_compiler_had_started_ends_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHILD", str(tmp_path / "pid"))
    found = run(project(tmp_path, CRASHES, "orphans"))
    assert "died of SIGABRT" in str(found["orphans"].failure)
    state = Path("/proc", (tmp_path / "pid").read_text(), "stat")
    for _ in range(300):
        if _has_ended(state):
            return
        time.sleep(0.1)  # a signal takes effect when its process is next at work
    pytest.fail("what the compiler had started still runs")


def _has_ended(state: Path) -> bool:
    try:
        return state.read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


READY = f"echo '{to_line(Ready()).strip()}'"
# By function: what is run in place of a Python, and what is said of it.
BROKEN = {
    "absent": (None, "cannot be started: No such file or directory"),
    "no_program": ("", "cannot be started: Permission denied"),
    "no_module": (
        "echo no such module >&2; exit 3",
        "ended with exit code 3\nthe end of its log:\nno such module",
    ),
    "crashes": ("kill -SEGV $$", "died of SIGSEGV\n"),
    "page": ("echo '<html>'; exec sleep 600", "is no worker of aotbuild: it said '<html>"),
    "array": ("echo '[1]'", "is no worker of aotbuild: it said '[1]"),
    "endless": ("yes | tr -d '\\n'", "is no worker of aotbuild: it said 'yyyyyy"),
    "binary": ("printf '\\377\\n'", "is no worker of aotbuild: it said"),
    "other_version": (
        READY.replace(f": {VERSION}", ": 99"),
        f"it speaks version 99 of the worker protocol, expected {VERSION}: aotbuild changed",
    ),
    "chatty": (f"{READY}; read a; read b; echo hi", "no message: 'hi\\n'"),
    "other_type": (f"""{READY}; read a; read b; echo '{{"type": "x"}}'""", "no message: '{"),
    "cut": (f"""{READY}; read a; read b; printf '{{"type": "do'""", "no message: '{"),
    "brief": (f"{READY}; read a; read b; exit 4", "with exit code 4\n"),
}
# Those that are workers at first.
TALKS = ("chatty", "other_type", "cut", "brief")


def test_broken_toolchains_cost_their_own_units(tmp_path: Path) -> None:
    interpreters = {name: tmp_path / name for name in BROKEN}
    for name, (script, _) in BROKEN.items():
        if script is not None:
            interpreters[name].write_text(f"#!/bin/sh\n{script}\n")
            interpreters[name].chmod(0o755 if script else 0o644)
    root = project(tmp_path / "p", CRASHES, *BROKEN, "fine")
    found = run(root, interpreters=interpreters)
    assert found["fine"].record is not None
    for name, (_, reason) in BROKEN.items():
        failure = found[name].failure
        assert failure is not None
        assert reason in failure.message
        assert failure.stage == ("trace" if name in TALKS else "start")


def test_a_broken_toolchain_is_started_once(tmp_path: Path) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\necho x >> {tmp_path}/count\nexit 3\n")
    interpreter.chmod(0o755)
    names = ("hang", "leave", "crash")
    root = project(tmp_path / "p", CRASHES, *names)
    found = run(root, jobs=1, interpreters=dict.fromkeys(names, interpreter))
    assert len({result.failure.message for result in found.values() if result.failure}) == 1
    assert (tmp_path / "count").read_text() == "x\n"


def test_a_process_that_never_says_it_is_there_is_stopped(tmp_path: Path) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text("#!/bin/sh\nexec sleep 600\n")
    interpreter.chmod(0o755)
    toolchain = Toolchain("1", "1", "3.99.0", interpreter=interpreter)
    settings = Settings(toolchain, "cpu", None, 1, False, (), ())
    worker = Worker(settings, Hello(blobs=tmp_path), tmp_path, start_timeout=0.2)
    (_, job, _), *_ = make_jobs(make_plan(parse_manifest(ONE), probe()).units)
    with pytest.raises(NotStarted, match=r"python: its start took longer than 0\.2 s and was st"):
        next(worker.run(job, 60))
    worker.close()


def test_what_decides_the_bytes_is_no_variable_of_the_manifest() -> None:
    """XLA splits loops for as many threads as this says; no key of the store has it."""
    toolchain = Toolchain("1", "1", "3.99.0")
    settings = Settings(toolchain, "cpu", None, 1, False, (), (("PJRT_NPROC", "4"), ("MINE", "4")))
    found = settings.environment({})
    assert (found["PJRT_NPROC"], found["MINE"]) == ("16", "4")


def test_hang_is_stopped_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_TIMEOUT", "2")
    found = run(project(tmp_path, CRASHES, "hang"))
    assert "took longer than 2 s and was stopped" in str(found["hang"].failure)


def test_noisy_code_disturbs_neither_protocol_nor_result(tmp_path: Path) -> None:
    before = Path.cwd()
    root = project(tmp_path / "wörk spaces/プロジェクト", NOISY, "noisy", "other")
    package = build(root)
    assert Path.cwd() == before
    assert [record.function for record in package.records] == ["noisy", "other"]
    code = (
        "import aotbuild, json, numpy as np; x = np.ones(3, np.float32)\n"
        "lib = aotbuild.load('proj')\n"
        "print(json.dumps([*lib.noisy(x).tolist(), *lib.other(x).tolist()]))"
    )
    assert forked(code, path=root) == [1, 1, 1, 0, 0, 0]


def test_function_is_traced_once_for_all_targets_of_a_signature(tmp_path: Path) -> None:
    source = (
        "import jax, os\n"
        "def count(what):\n"
        "    with open(f\"{os.environ['COUNT']}/{os.getpid()}\", 'a') as file: file.write(what)\n"
        "def f(x):\n    count('x')\n    return helper(x)\n"
        "@jax.custom_vjp\ndef helper(x):\n    count('h')\n    return x * 2\n"
        "helper.defvjp(lambda x: (x * 2, None), lambda _, g: (g,))\n"
    )
    counted = tmp_path / "count"
    counted.mkdir()
    manifest = (
        "version: 1\npackage: proj\ntargets: [cpu, portable]\nfunctions:\n"
        f"  f:\n    call: proj.mod:f\n    {X}\n    env: {{COUNT: '{counted}'}}\n"
    )
    build(write_project(tmp_path / "p", manifest, mod=source))
    # The second fork traces twice, to see what a trace leaves.
    assert sorted(path.read_text() for path in counted.iterdir()) == ["xh", "xhxh"]
