"""The code of a project does in a build what no project should: it costs its own unit at most.

One build has all of it. Cases that change the process for others, or end it, have one of their own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from faults.ended import NEVER, files_in
from support.forks import forked
from support.kills import LAUNCHER, PATIENCE
from support.processes import ROOT, clean_environment
from support.projects import MANIFEST, write_project
from support.shared import made_once

pytestmark = pytest.mark.process

DONE = ""
# What is said of a compiler process that ended, or was ended.
EXITED = "the compiler process ended with exit code {}\n"
CLOSED = "aotbuild: Bad file descriptor: does the project's code close files it did not open?"
FORGED = "no message: {}: code of the project wrote it into a file that it did not open"
TO_ALL_FILES = """
import os
for number in range(3, 60):
    try:
        os.write(number, {!r})
    except OSError:
        pass
"""


@dataclass(frozen=True)
class Case:
    """What code does, at its import or when it is called, and what the build says of it."""

    code: str
    says: str = DONE
    at_import: bool = False
    alone: bool = False

    @property
    def module(self) -> str:
        """The source of a module whose `f` adds 1."""
        code = textwrap.dedent(self.code).strip()
        if self.at_import:
            return f"{code}\n\n\ndef f(x):\n    return x + 1\n"
        return f"def f(x):\n{textwrap.indent(code, '    ')}\n    return x + 1\n"


def forged(line: bytes) -> str:
    return FORGED.format(repr(line.decode()))


DONE_LINE = b'{"type": "done"}\n'
COMPILED_LINE = b'{"type": "compiled", "target": "another", "record": {}}\n'
CASES = {
    "prints": Case("print('hi')"),
    "prints much": Case("print('x' * 5_000_000)"),
    "prints messages": Case(f"print({DONE_LINE.decode()!r})"),
    "reads its input": Case("import sys\nassert sys.stdin.read() == ''"),
    "writes 'done' to all files": Case(TO_ALL_FILES.format(DONE_LINE), forged(DONE_LINE)),
    "writes of a result to all files": Case(
        TO_ALL_FILES.format(COMPILED_LINE), forged(COMPILED_LINE)
    ),
    "closes stdout": Case("import os\nos.closerange(1, 2)", alone=True),
    "closes all files": Case(
        "import os\nos.closerange(3, 300)", CLOSED, alone=True, at_import=True
    ),
    "prints into a broken stream": Case(
        """
        import sys
        class Broken:
            def write(self, text): raise ValueError("no")
            def flush(self): raise ValueError("no")
        sys.stdout = sys.stderr = Broken()
        """
    ),
    "changes the folder": Case("import os\nos.chdir('/')"),
    "changes jax": Case(
        "import jax\njax.config.update('jax_enable_x64', True)", "changed jax's settings"
    ),
    "raises SystemExit at its import": Case(
        "import sys\nsys.exit(3)", "\nSystemExit: 3", at_import=True
    ),
    "raises what cannot be shown": Case(
        "class Own(Exception):\n    def __str__(self): raise SystemExit(3)\nraise Own",
        "Own: its text cannot be shown (SystemExit in __str__)",
    ),
    "calls itself for ever": Case("def again(): return again()\nagain()", "RecursionError: "),
    "exits at its import": Case("import os\nos._exit(7)", EXITED.format(7), at_import=True),
    "kills its group": Case("import os\nos.killpg(0, 9)", "was killed (SIGKILL)"),
    "stops others while it is traced": Case(
        "import os, threading\nthreading.Thread(target=os._exit, args=(5,)).start()\n"
        "threading.Event().wait(60)",
        EXITED.format(5),
    ),
    "starts a program in a session of its own": Case(
        "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)"
    ),
    "becomes a daemon": Case(
        """
        import os, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(0, 300)
                time.sleep(600)
            os._exit(0)
        os.wait()
        """
    ),
}
NAMES = {case: f"case_{number}" for number, case in enumerate(CASES)}
MORE = "  {name}:\n    call: proj.{name}:f\n    args: [x: 'f32[2]']\n"
ALONE = "    env: {{CASE: '{name}'}}\n"


@pytest.fixture(scope="module")
def built(run: Path) -> dict[str, Any]:
    """The document of one build, how it ended, and what functions of it return.

    A build with a failure makes no package. What is called comes from a second build, without the
    cases that fail; it finds the executables in the store.
    """

    def make(folder: Path) -> None:
        modules = {NAMES[name]: case.module for name, case in CASES.items()}
        root = write_project(folder / "p", manifest_of(CASES), **modules)
        temporary = folder / "temporary"
        temporary.mkdir()
        document, code, errors = build(root, temporary)
        found = {
            "document": json.loads(document),
            "code": code,
            "errors": errors,
            "temporary": sorted(files_in(temporary)),
            "package": sorted(path.name for path in (root / "proj").iterdir()),
        }
        (folder / "found").write_text(json.dumps(found))
        good = [name for name, case in CASES.items() if case.says == DONE]
        (root / MANIFEST).write_text(manifest_of(good))
        document, code, errors = build(root, temporary)
        assert code == 0, document + errors
        code_of_calls = (
            "import aotbuild, json, sys, numpy as np\n"
            "lib = aotbuild.load('proj')\n"
            "names = json.loads(sys.argv[1])\n"
            "x = np.ones(2, np.float32)\n"
            "print(json.dumps({name: getattr(lib, name)(x).tolist() for name in names}))\n"
        )
        wanted = [NAMES[name] for name in good]
        found["results"] = forked(code_of_calls, json.dumps(wanted), path=root)
        (folder / "found").write_text(json.dumps(found))

    folder = made_once(run / "faults-builds", make)
    found: dict[str, Any] = json.loads((folder / "found").read_text())
    return found


def manifest_of(names: Iterable[str]) -> str:
    """Return a manifest of the functions of some cases."""
    entries = [
        MORE.format(name=NAMES[name])
        + (ALONE.format(name=NAMES[name]) if CASES[name].alone else "")
        for name in names
    ]
    return f"version: 1\npackage: proj\nfunctions:\n{''.join(entries)}"


def build(root: Path, temporary: Path) -> tuple[str, int, str]:
    """Build a project in place; return the document, the exit code and what stderr has."""
    command = ("-m", "aotbuild", "build", MANIFEST, "--json", "--in-place")
    ended = subprocess.run(
        [sys.executable, "-c", LAUNCHER, sys.executable, *command],
        cwd=root,
        env=clean_environment(
            AOTBUILD_STORE=str(root.with_name("store")),
            AOTBUILD_JOBS="2",
            PYTHONPATH=str(ROOT),
            TMPDIR=str(temporary),
            PYTHONDONTWRITEBYTECODE="1",
        ),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=2 * PATIENCE,
    )
    document, code = ended.stdout.rstrip().rsplit("\n", 1)
    return document, int(code), ended.stderr


@pytest.mark.parametrize("name", CASES)
def test_code_that(built: dict[str, Any], name: str) -> None:
    case, function = CASES[name], NAMES[name]
    failures = [
        failure["message"]
        for failure in built["document"]["failures"]
        if failure["unit"].startswith(f"{function}()")
    ]
    if case.says == DONE:
        assert failures == []
        assert built["results"][function] == [2.0, 2.0]
    else:
        (message,) = failures
        assert case.says in message
        assert not [words for words in NEVER if words in message], message


def test_the_build_itself(built: dict[str, Any]) -> None:
    """It ends as builds do whose units fail, all processes with it, and leaves nothing."""
    assert built["code"] == 4
    assert not [words for words in NEVER if words in built["errors"]], built["errors"]
    assert not [name for name in built["package"] if name.startswith(".")]
    assert [name for name in built["temporary"] if ".aotbuild" in name] == []
