"""Builds that share a store: a server of S3."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.installs import make_layer, tree_of
from support.processes import clean_environment
from support.projects import write_project
from support.shared import made_once

from aotbuild.toolchains.uv import run_uv

pytestmark = [pytest.mark.wheel, pytest.mark.any_jax]

# Each compilation of a worker writes a line, those of golden outputs, too.
SOURCE = """
import jax
from pathlib import Path
from jax import monitoring

def note(event, seconds, **_):
    if event == "/jax/core/compile/backend_compile_duration":
        with Path(__file__).with_name("compiled").open("a") as file:
            file.write(event + "\\n")

monitoring.register_event_duration_secs_listener(note)

def f(x):
    return jax.numpy.sin(x) * 2

def g(x):
    return jax.numpy.cos(x) @ x
"""
MANIFEST = """
version: 1
package: proj
targets: [cpu]
functions:
  f: {call: "proj.m:f", args: [x: "f32[n]"], dims: {n: [2, 3]}}
  g: {call: "proj.m:g", args: [x: "f32[n]"], dims: {n: [2, 3]}}
"""
SECRET = "hunter2hunter2"
S3 = {
    "AWS_ACCESS_KEY_ID": "team",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
SERVER = """
import sys, boto3
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
url = "http://%s:%s" % server.get_host_and_port()
boto3.client("s3", endpoint_url=url).create_bucket(Bucket="team")
print(url, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def python(run: Path) -> Path:
    """The Python of an environment that also has S3's file system, and a server of its protocol."""

    def make(folder: Path) -> None:
        layer = make_layer(folder / "env")
        wanted = ("s3fs", "moto[server]")
        run_uv(("pip", "install", "--quiet", "--python", layer, *wanted), folder)

    return made_once(run / "remote-store", make) / "env" / "bin" / "python"


@pytest.fixture
def s3(python: Path) -> Iterator[dict[str, str]]:
    """The variables that lead to a server of the S3 protocol with a bucket `team`."""
    process = subprocess.Popen(
        [python, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=clean_environment(**S3),
    )  # fmt: skip
    assert process.stdout is not None
    with process:
        try:
            yield {**S3, "AWS_ENDPOINT_URL": process.stdout.readline().strip()}
        finally:
            process.kill()


class Builder:
    """A machine with a project in a folder of its own, and no store at first."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.store = python, folder / "store"
        self.root = write_project(folder / "project", MANIFEST, m=SOURCE)

    def build(self, *behind: object, **env: str) -> dict[str, Any]:
        """Build, with this behind the local store; return the document."""
        store = ",".join(map(str, (self.store, *behind)))
        done = subprocess.run(
            [self.python, "-m", "aotbuild", "build", "--json", "--out", "out/_aot"],
            cwd=self.root, capture_output=True, text=True, timeout=300,
            env=clean_environment(AOTBUILD_STORE=store, AOTBUILD_JOBS="1", **env),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        self.printed = done.stdout + done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    @property
    def compilations(self) -> int:
        noted = self.root / "proj" / "compiled"
        return len(noted.read_text().splitlines()) if noted.exists() else 0

    @property
    def package(self) -> dict[str, bytes]:
        return tree_of(self.root / "out" / "_aot")


def test_what_one_builder_pushes_no_other_compiles(
    python: Path, tmp_path: Path, s3: dict[str, str]
) -> None:
    a, b, env = Builder(python, tmp_path / "a"), Builder(python, tmp_path / "b" / "elsewhere"), s3
    first = a.build("s3://team/prefix", **env)
    assert a.compilations > 0
    assert first["store"]["pushed"] == first["store"]["made"] > 0
    second = b.build("s3://team/prefix", **env)
    assert b.compilations == 0
    # The whole build: the first, whose code noted into the project what it compiled, kept none.
    assert second["store"] == {**second["store"], "made": 1, "pushed": 1}
    assert second["store"]["fetched"] == second["store"]["used"] > 0
    assert b.package == a.package
    # The local store has it now: no server is needed.
    again = b.build(**env)
    assert b.compilations == 0
    assert again["store"] == {**again["store"], "fetched": 0, "made": 0, "pushed": 0}
    files = {**tree_of(a.root), **tree_of(a.store), **tree_of(b.root), **tree_of(b.store)}
    assert SECRET not in a.printed + b.printed
    assert not [name for name, data in files.items() if SECRET.encode() in data]
