"""The recipes of the docs: their files, their commands, and servers that run as the pages say."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from support.doc_pages import DOCS, FENCE, text_of
from support.doc_sessions import files_of
from support.installs import build_wheel, install_by_uv
from support.processes import clean_environment

RECIPES = DOCS / "recipes"
# The port of the pages.
PORT = "8000"
# Seconds after which a server that does not answer is ended, so that the test fails.
LIMIT = 300


def build_ranker(folder: Path, links: Path) -> None:
    """Build the package of all recipes as its page says, and put aotbuild's wheel beside it."""
    project = folder / "project"
    (project / "ranker").mkdir(parents=True)
    (project / "ranker" / "__init__.py").touch()
    recipe = Recipe("index", project)
    recipe.write()
    weights, build = recipe.commands
    assert build == "pip wheel . --no-deps -w dist"
    recipe.run(weights)
    build_wheel(project, folder / "dist")
    for wheel in links.glob("*.whl"):
        shutil.copy(wheel, folder)


def expected_scores(ranker: Path, rows: Any) -> np.ndarray:
    """Return what the package's function returns, computed by numpy alone."""
    weights = np.load(ranker / "project" / "ranker" / "weights.npz")
    hidden = np.maximum(np.asarray(rows, "float32") @ weights["w1"] + weights["b1"], 0)
    return np.asarray(1 / (1 + np.exp(-(hidden @ weights["w2"]))))


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Server:
    """A server that runs, and the lines that it has printed."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def wait_for(self, pattern: str, times: int = 1) -> None:
        """Read its output until a pattern has come so many times."""
        assert self.process.stdout is not None
        left = times
        with self._watched():
            for line in self.process.stdout:
                self.lines.append(line)
                left -= bool(re.search(pattern, line))
                if not left:
                    return
        raise AssertionError(f"exit {self.process.wait()}\n{''.join(self.lines)}")

    def wait_for_port(self, port: str) -> None:
        """Wait until it accepts connections; some say that they are ready a moment before."""
        with self._watched():
            while self.process.poll() is None:
                with (
                    suppress(ConnectionRefusedError),
                    socket.create_connection(("127.0.0.1", port)),
                ):
                    return
        raise AssertionError(f"exit {self.process.wait()}\n{''.join(self.lines)}")

    def stop(self) -> str:
        """End it as an orchestrator does, and return all that it has printed."""
        self.process.terminate()
        assert self.process.stdout is not None
        with self._watched():
            self.lines.extend(self.process.stdout)
        return "".join(self.lines)

    def kill(self) -> None:
        """End all of its processes that are still there."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Kill it if it neither prints what is expected nor ends."""
        timer = threading.Timer(LIMIT, self.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


@dataclass(frozen=True)
class Recipe:
    """A page, in a folder of its own, with the Python that its installing command fills."""

    page: str
    folder: Path
    python: Path | None = None
    port: str = PORT

    @cached_property
    def text(self) -> str:
        return text_of(RECIPES / f"{self.page}.md").replace(PORT, self.port)

    @cached_property
    def commands(self) -> list[str]:
        """The commands of the page, in order."""
        blocks = [body for _, language, body in FENCE.findall(self.text) if language == "console"]
        return [line[2:] for body in blocks for line in body.splitlines() if line.startswith("$ ")]

    def shown_after(self, command: str) -> str:
        """Return what the page shows that a command prints."""
        start = self.text.index(f"$ {command}\n") + len(command) + 3
        return re.split(r"^(?:\$ |```)", self.text[start:], maxsplit=1, flags=re.MULTILINE)[0]

    def write(self, *names: str) -> None:
        """Write the files of the page, or only some of them."""
        files = files_of(RECIPES / f"{self.page}.md")
        for name in names or files:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[name][0].replace(PORT, self.port), encoding="utf-8")

    def environment(self, **env: str) -> dict[str, str]:
        """Return what its processes see: its own programs first, and a home of its own."""
        found = clean_environment(HOME=str(self.folder), PYTHONUNBUFFERED="1", **env)
        if self.python is not None:
            found["PATH"] = os.pathsep.join([str(self.python.parent), found["PATH"]])
        return found

    def run(self, command: str, **env: str) -> str:
        """Run a command of the page, and return what it prints."""
        done = subprocess.run(
            shlex.split(command),
            cwd=self.folder,
            env=self.environment(**env),
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @contextmanager
    def serving(self, command: str, until: str, times: int = 1) -> Iterator[Server]:
        """Run a command of the page until the block ends; begin when it has printed `until`."""
        assert command in self.commands
        with subprocess.Popen(
            shlex.split(command),
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            server = Server(process)
            try:
                server.wait_for(until, times)
                server.wait_for_port(self.port)
                yield server
            finally:
                server.kill()

    def curl(self, command: str) -> Answer:
        """Do what a command with curl does."""
        program, address, *options = shlex.split(command)
        assert program == "curl"
        given = dict(zip(options[::2], options[1::2], strict=True))
        data = given.pop("-d", None)
        headers = dict([given.pop("-H").split(": ")]) if "-H" in given else {}
        assert not given, f"options that are not known here: {given}"
        address = f"http://{address}".replace("localhost", "127.0.0.1")
        return self.send(address, data, headers)

    def send(self, address: str, data: str | None, headers: dict[str, str]) -> Answer:
        body = None if data is None else data.encode()
        request = urllib.request.Request(address, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as answer:
                return Answer(answer.status, answer.read().decode())
        except urllib.error.HTTPError as err:
            with err:
                return Answer(err.code, err.read().decode())

    def post(self, path: str, document: Any) -> Answer:
        headers = {"Content-Type": "application/json"}
        return self.send(f"http://127.0.0.1:{self.port}{path}", json.dumps(document), headers)

    def get(self, path: str) -> Answer:
        return self.send(f"http://127.0.0.1:{self.port}{path}", None, {})


def install(page: str, folder: Path, ranker: Path) -> Recipe:
    """Make the environment of a page with its own command, and write its files."""
    recipe = Recipe(page, folder / "work", port=free_port())
    recipe.folder.mkdir()
    pip, install, wheel, *frameworks = shlex.split(recipe.commands[0])
    assert (pip, install, wheel) == ("pip", "install", "dist/ranker-*.whl")
    (found,) = ranker.glob(wheel)
    python = install_by_uv(folder / "env", found, *frameworks, links=ranker)
    recipe.write()
    return Recipe(page, recipe.folder, python, recipe.port)


def free_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])


def has_module(python: Path, name: str) -> bool:
    """Return whether an environment has a module."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)"
    return subprocess.run([python, "-P", "-c", code]).returncode == 0
