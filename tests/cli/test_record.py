"""`aotbuild record`: a command runs as it would alone, and its calls become a manifest."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.cli import invoke, run
from support.packages import build, write
from support.processes import clean_environment

from aotbuild.manifest import load_manifest
from aotbuild.record.call_log import CallLog, read_call_log
from aotbuild.record.recorder import run_watched

NET = """\
import jax
import jax.numpy as jnp

@jax.jit
def apply(params, x):
    return jnp.tanh(x @ params["w"]) + params["b"]
"""
# Finds jax before it imports it, as libraries do; forks before jax makes threads.
PROGRAM = """\
import builtins, importlib.util, json, multiprocessing, os, signal, sys, threading, warnings

warnings.simplefilter("ignore")
assert "jax" not in sys.modules and "aotbuild" not in sys.modules
assert importlib.util.find_spec("jax").origin.endswith("__init__.py")
assert builtins.of_sitecustomize == 1
import jax
import numpy as np
import net

params = {"w": np.ones((4, 2), np.float32), "b": np.float32(0)}

def call(size):
    return net.apply(params, np.ones((size, 4), np.float32))

@jax.jit
def main_step(x):
    return x + 1

def child(size, end):
    if not (pid := os.fork()):
        call(size)
        end()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

def crash():
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)

if __name__ == "__main__":
    ends = [
        child(1, lambda: os.kill(os.getpid(), signal.SIGKILL)),
        child(2, crash),
        child(3, lambda: os._exit(5)),
    ]
    process = multiprocessing.get_context("fork").Process(target=call, args=(4,))
    process.start()
    process.join()
    ends.append(process.exitcode)
    threads = [threading.Thread(target=call, args=(8,)) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    main_step(np.float32(1))
    (lambda f: f(1.0))(jax.jit(lambda x: x))
    print(json.dumps({"ends": ends, "argv": sys.argv[1:], "result": np.asarray(call(8)).tolist()}))
    sys.exit(3)
"""
ELSEWHERE = """
import importlib.util, sys
assert getattr(importlib.util.find_spec("aotbuild"), "origin", None) is None
paths = [*sys.path]
import jax, net
for size in (1, 2, 2):
    net.apply({"w": jax.numpy.ones((4, 2)), "b": 0.0}, jax.numpy.ones((size, 4)))
assert sys.modules["aotbuild"].__file__
assert sys.path == paths
sys.exit(4)
"""
COMMAND = [sys.executable, "-m", "aotbuild", "record"]


LAMBDA_LINE = next(n for n, line in enumerate(PROGRAM.splitlines(), 1) if "lambda x" in line)


@dataclass(frozen=True)
class Run:
    folder: Path
    done: subprocess.CompletedProcess[str]
    found: CallLog


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "net").mkdir()
    (folder / "net" / "__init__.py").write_text(NET)
    (folder / "prog.py").write_text(PROGRAM)
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(
        "import builtins\nbuiltins.of_sitecustomize = 1\n"
    )
    return folder


@pytest.fixture(scope="module")
def recorded(project: Path) -> Run:
    """A program with all that may happen to processes, and what is recorded of it."""
    done = subprocess.run(
        [*COMMAND, "--log", "calls.jsonl", "--", sys.executable, "prog.py", "--rate", "2"],
        cwd=project,
        env=clean_environment(PYTHONPATH=str(project / "site")),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    log = project / "calls.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        done.stdout += run("record", "--from", log).stdout
    return Run(project, done, read_call_log(log))


@pytest.mark.process
class TestAProgram:
    def test_it_runs_as_it_would_alone(self, recorded: Run) -> None:
        printed = json.loads(recorded.done.stdout.splitlines()[0])
        assert printed["ends"] == [-signal.SIGKILL, -signal.SIGSEGV, 5, 0]
        assert printed["argv"] == ["--rate", "2"]
        np.testing.assert_allclose(printed["result"], np.full((8, 2), np.tanh(4)), rtol=1e-5)
        assert recorded.done.returncode == 3
        assert "the command ended with 3; what was seen until then" in recorded.done.stderr

    def test_what_every_process_called(self, recorded: Run) -> None:
        found = recorded.found
        (apply,) = (each for each in found.functions.values() if each.call == "net:apply")
        calls = {
            str(call.arguments[1].spec): found.tally([key])
            for key, call in found.of(apply.key).items()
        }
        assert {aval: tally.calls for aval, tally in calls.items()} == {
            "f32[1,4]": 1,  # killed
            "f32[2,4]": 1,  # crashed
            "f32[3,4]": 1,  # os._exit
            "f32[4,4]": 1,  # multiprocessing
            "f32[8,4]": 5,  # threads, and the program itself
        }
        assert all(tally.seconds > 0 for tally in calls.values())

    def test_the_manifest(self, recorded: Run) -> None:
        functions = load_manifest(recorded.folder / "aot.yaml").functions
        assert {each.call for each in functions.values()} == {"net:apply", "prog:main_step"}
        apply = functions["apply"]
        assert apply.dims == {"batch": (1, 2, 3, 4, 8)}
        left_out = f"prog.py:{LAMBDA_LINE}: prog:<lambda>: 1 call, "
        assert left_out in recorded.done.stdout, recorded.done.stdout
        assert "written: aot.yaml" in recorded.done.stdout


@pytest.mark.process
class TestOtherEnvironments:
    def test_one_without_aotbuild(
        self, project: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """And a full disk: the program goes on, with one line of why."""
        venv.create(tmp_path / "env", with_pip=False)
        (packages,) = (tmp_path / "env").glob("lib/python*/site-packages")
        # Its .pth files, which lead to aotbuild, are not read.
        (packages / "jax.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        command = [str(tmp_path / "env" / "bin" / "python"), "-c", ELSEWHERE]
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(project)
            patch.delenv("PYTHONPATH", raising=False)
            assert run_watched(command, tmp_path / "calls.jsonl") == 4
            found = read_call_log(tmp_path / "calls.jsonl")
            (apply,) = (each for each in found.functions.values() if each.call == "net:apply")
            assert found.tally(found.of(apply.key)).calls == 3
            assert capfd.readouterr().err == ""
            assert run_watched(command, Path("/dev/full")) == 4
        told = capfd.readouterr().err
        assert told.startswith("aotbuild: this process is not recorded: OSError: ")
        assert told.endswith("not a regular file: '/dev/full'\n")


class TestCommands:
    """Without jax."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    @pytest.mark.process
    @pytest.mark.parametrize(("end", "code"), [("exit 7", 7), ("kill -9 $$", 137)])
    def test_the_exit_code(self, end: str, code: int) -> None:
        done = invoke("record", "--json", "--", "sh", "-c", end)
        assert (done.exit_code, json.loads(done.stdout)["exit_code"]) == (code, code)
        assert f"the command ended with {code}; what was seen until then" in done.stderr

    def test_a_log_that_cannot_be_written(self) -> None:
        """Before the command runs."""
        done = invoke("record", "--log", "/proc/none/calls.jsonl", "--", "touch", "ran")
        assert (done.exit_code, Path("ran").exists()) == (6, False)
        assert done.stderr == "/proc/none/calls.jsonl: No such file or directory\n"

    @pytest.mark.process
    @pytest.mark.parametrize("options", [("--json",), ()])
    def test_what_the_command_prints(self, options: tuple[str, ...]) -> None:
        """It is no part of the one JSON document."""
        command = [*COMMAND, *options, "--", "echo", "of the program"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        if options:
            assert json.loads(done.stdout)["exit_code"] == 0
            assert done.stderr == "of the program\n"
        else:
            assert done.stdout.startswith("of the program\n")
            assert not done.stderr

    @pytest.mark.process
    def test_a_signal_is_passed_on(self) -> None:
        code = "import signal, sys; signal.signal(15, lambda *_: sys.exit(9));"
        code += "print('on', flush=True); signal.pause()"
        command = [*COMMAND, "--", sys.executable, "-c", code]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            assert process.stdout.readline() == "on\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 9


CHECKED = """
import jax, numpy as np
import guarded_source
for size in (2, 3):
    guarded_source.double(jax.numpy.ones((size, 4), np.float32))
jax.jit(lambda x: x, donate_argnums=0)(jax.random.key(0))
"""


@pytest.mark.process
def test_what_no_executable_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runtime's own verdicts, of the calls that a program makes."""
    (tmp_path / "guarded_source.py").write_text(
        "import jax\ndef double(x):\n  return x * 2\ndouble = jax.jit(double, donate_argnums=0)\n"
    )
    (tmp_path / "prog.py").write_text(CHECKED)
    example = np.ones((2, 4), np.float32)
    built = build("double", lambda x: x * 2, {"x": example}, call="guarded_source:double")
    place = write(tmp_path / "pkg", [built])
    monkeypatch.chdir(tmp_path)
    done = invoke("record", "--check", str(place), "--json", "--", sys.executable, "prog.py")
    assert done.exit_code == 5, done.stderr
    checked = json.loads(done.stdout)["checked"]
    missing = {each["call"]: each["why"] for each in checked["not_served"]}
    assert checked["signatures"] == 3
    assert len(missing) == len(checked["not_served"]) == 2  # a donated array is no reason
    assert "x: expected f32[2,4], found f32[3,4]" in missing["guarded_source:double"]
    assert missing["prog:<lambda>"] == "no function of the package calls prog:<lambda>"
    assert not (tmp_path / "aot.yaml").exists()


OUTSIDE = """
import jax, jax.numpy as jnp
from flax import nnx
class Net(nnx.Module):
    def __init__(self, rngs):
        self.layers = nnx.List([nnx.Linear(4, 4, rngs=rngs) for _ in range(40)])
        self.a = jnp.ones(2) + 1
        self.b = jnp.ones(3) + 1
        self.c = jnp.ones(4) + 1
        self.d = jnp.ones(5) + 1
        self.e = jnp.ones(6) + 1
@jax.jit
def step(cache, position):
    return cache.sum(), cache + position
net, cache, position = Net(nnx.Rngs(0)), jnp.zeros(4), jnp.int32(0)
for _ in range(8):
    logits, cache = step(cache, position)
    position = position + 1
    jax.grad(step, has_aux=True)(cache, 1.0)
"""


@pytest.mark.process
def test_what_runs_outside_of_any_jit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of a loop come first, however many operations made the model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog.py").write_text(OUTSIDE)
    program = ("--", sys.executable, "prog.py")
    said = run("record", "--log", "calls.jsonl", *program).stdout.splitlines()
    start = said.index("outside of any jit, where JAX compiles a program for each operation:")
    named = [line.strip().partition(" s of")[0] for line in said[start + 1 : start + 6]]
    place = f"{tmp_path}/prog.py"
    loop = {line.partition(": 8 times, ")[0] for line in named[:2]}
    assert loop == {f"{place}:18 in <module>", f"{place}:19 in <module>"}, said
    assert all(": 1 time, " in line for line in named[2:])
    assert said[start + 6].startswith("  and ")
    assert "(--json has all)" in said[start + 6]
    assert f"{place}:10 in __init__" in read_call_log(Path("calls.jsonl")).outside


MODEL = """
import dataclasses, pathlib
from flax import nnx
class Net(nnx.Module):
    def __init__(self, cfg):
        self.cfg = cfg
        self.a = nnx.Linear(cfg.width, cfg.width, rngs=nnx.Rngs(0))
@dataclasses.dataclass(frozen=True)
class Cfg:
    width: int = 8
@nnx.jit
def step(net, x):
    return net.a(x)
"""
WEIGHTS = "CFG = Cfg()\nnet = Net(CFG)\nDATA = pathlib.Path('weights.bin').resolve().read_bytes()\n"
SLOW = "import os, time\ntime.sleep(600 * ('AOTBUILD_BUILDING' in os.environ))\n"
SERVE = "import chat, jax.numpy as jnp\n{}\nchat.step(net, jnp.ones((2, 8)))\n"


@pytest.mark.process
@pytest.mark.parametrize("of_the_program", [True, False])
def test_an_object_of_the_program_and_a_clone_without_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_the_program: bool
) -> None:
    """What is written names nothing of the program, and says what a build imports."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AOTBUILD_STORE", "off")
    (code := tmp_path / "chat" / "__init__.py").parent.mkdir()
    code.write_text(MODEL + ("" if of_the_program else WEIGHTS))
    (tmp_path / "weights.bin").touch()
    made = "CFG = chat.Cfg()\nnet = chat.Net(CFG)" if of_the_program else "net = chat.net"
    (tmp_path / "serve.py").write_text(SERVE.format(made))
    subprocess.run(["git", "init", "-q"], check=True)
    Path(".gitignore").write_text("*.bin\n")
    said = run("record", "--", sys.executable, "serve.py").stdout
    text = (tmp_path / "aot.yaml").read_text()
    assert "serve:" not in text
    if of_the_program:
        assert "TODO: a chat.Net" in said
        assert "fresh clone" not in said
        return
    assert "like: a build imports chat; all that it reads must be in the repository" in said
    missing = "FileNotFoundError: [Errno 2] No such file or directory: '"
    assert f"a build of a fresh clone fails: importing chat: {missing}weights.bin'\n" in said
    (tmp_path / "aot.yaml").unlink()
    code.write_text(SLOW + MODEL + WEIGHTS)
    with monkeypatch.context() as patch:
        patch.setattr("aotbuild.record.check._MOST", 1.0)
        said = run("record", "--", sys.executable, "serve.py").stdout
    assert "not known if a build of a fresh clone works: importing chat took over 1 s\n" in said
    code.write_text(MODEL + WEIGHTS)
    Path(".gitignore").unlink()
    (tmp_path / "aot.yaml").unlink()
    assert "fresh clone" not in run("record", "--", sys.executable, "serve.py").stdout
    (tmp_path / "weights.bin").unlink()
    (tmp_path / "serve.py").unlink()
    failed = run("build", "--out", "out/_aot", code=4).output
    assert "importing chat failed" in failed
    assert f"{missing}{tmp_path}/weights.bin'" in failed
