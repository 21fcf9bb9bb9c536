"""The workflow of GitHub and the pipeline of GitLab in the example project do what they say.

`main` is built first, with an empty store, and becomes a release. Then a change drops a signature.
The project imports a library of its own, which the jobs have to install.
"""

from __future__ import annotations

import json
import shutil
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from support.pipelines import GitHub, GitLab, Machine
from support.processes import ROOT, TESTS
from support.projects import copy_project
from support.shared import made_once

pytestmark = [pytest.mark.wheel, pytest.mark.any_jax]

EXAMPLE = "../../example_project"
JAX = metadata.version("jax")
FROM_FORKS = "github.event.pull_request.head.repo.full_name == github.repository"
LOST = "- signature embed(batch=32)"


@pytest.fixture(scope="module")
def main(run: Path, links: Path) -> Path:
    """The files of a GitHub runner after the workflow has built `main` and released it."""

    def make(folder: Path) -> None:
        github = on_github(folder, links, pull_request=False)
        for name in ("build", "wheel", "release"):
            assert github.run(name), "\n".join(github.machine.log)
        built, merged = github.summaries[0], "\n".join(github.machine.log)
        assert "### aotbuild build" in built
        assert "from the store" not in built
        assert "there is" not in merged
        shutil.rmtree(folder / "project")

    return made_once(run / "pipelines", make)


def on_github(root: Path, links: Path, *, pull_request: bool) -> GitHub:
    project = example(root)
    variables = {"GH_FILES": str(root / "gh"), **places(root, links)}
    machine = Machine(root, project, links, TESTS / "support", variables)
    known = {
        "github.sha": "2" if pull_request else "1",
        "github.ref_type != 'tag'": True,
        "github.token": "gh-token",
        "github.repository": "acme/digits",
        "github.event.pull_request.number": 7,
    }
    github = GitHub(machine, ROOT / "example_project/.github/workflows/wheels.yml", known)
    github.workflow["env"]["JAX"] = JAX
    github.machine.variables = {**machine.variables, "GITHUB_REF_NAME": "v0.1.0"}
    return github


def example(root: Path) -> Path:
    """Copy the example project, and let it depend on a library that only this machine has."""
    project = copy_project(EXAMPLE, root).rename(root / "project")
    for name, old, new in (
        ("pyproject.toml", '["numpy"]', '["numpy", "aotbuild-test-library"]'),
        (
            "digits/model.py",
            "import jax\n",
            "import aotbuild_test_library as library\nimport jax\n",
        ),
        ("digits/model.py", "jax.nn.relu(", "library.FACTOR * jax.nn.relu("),
    ):
        text = (project / name).read_text()
        assert old in text
        (project / name).write_text(text.replace(old, new, 1))
    return project


def places(root: Path, links: Path) -> dict[str, str]:
    """Write the library's wheel, and return the variable by which pip finds it."""
    name, info = "aotbuild_test_library", "aotbuild_test_library-1.dist-info"
    (root / "library").mkdir()
    wheel = root / "library" / f"{name}-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", "FACTOR = 1.0\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", tags)
        archive.writestr(f"{info}/RECORD", "")
    return {"PIP_FIND_LINKS": f"{links.as_uri()} {wheel.parent.as_uri()}"}


def lose_a_signature(project: Path) -> None:
    manifest = project / "aot.yaml"
    text = manifest.read_text()
    assert text.count("batch: [1, 32]") == 1
    manifest.write_text(text.replace("batch: [1, 32]", "batch: [1]"))


def test_a_pull_request_on_github(main: Path, links: Path, tmp_path: Path) -> None:
    shutil.copytree(main / "caches", tmp_path / "caches")
    shutil.copytree(main / "gh", tmp_path / "gh")
    github = on_github(tmp_path, links, pull_request=True)
    lose_a_signature(github.machine.project)
    log = github.machine.log
    assert github.run("build"), "\n".join(log)
    native, *_ = github.summaries
    assert native.count("] done: ") == native.count(", from the store)") == 7
    assert github.run("wheel"), "\n".join(log)
    summary = github.summaries[-1]
    assert [line for line in summary.splitlines() if line.startswith("### ")] == [
        "### aotbuild verify",
        "### aotbuild diff",
    ]
    for _ in ("written", "replaced"):
        assert github.run("comment"), "\n".join(log)
        (comment,) = (tmp_path / "gh" / "comments").iterdir()
        text = comment.read_text()
        assert text.startswith("<!-- aotbuild diff -->\n### digits: digits_classifier-0.1.0-py3-")
        assert LOST in text
    assert "--method POST" in log[-1]
    comment_job, release = (github.workflow["jobs"][name] for name in ("comment", "release"))
    assert comment_job["if"] == f"${{{{ !cancelled() && {FROM_FORKS} }}}}"
    assert release["if"] == "${{ github.ref_type == 'tag' }}"
    # Where changes of strangers run, nothing can be written.
    assert github.workflow["permissions"] == {"contents": "read"}
    assert [n for n, job in github.workflow["jobs"].items() if "permissions" in job] == [
        "comment",
        "release",
    ]


class Service(ThreadingHTTPServer):
    """GitLab's API, as far as the pipeline asks it: packages and notes."""

    daemon_threads = True

    def __init__(self, wheel: Path | None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.wheel = wheel
        self.notes: dict[str, str] = {}


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        wheel, place = self.server.wheel, self.path.removeprefix("/api/v4/projects/3/")
        if place == "packages?package_type=pypi":
            assert self.headers["JOB-TOKEN"] == "job-token"
            self.answer(json.dumps([{"name": "digits-classifier"}] if wheel else []).encode())
        elif place == "packages/pypi/simple/digits-classifier/" and wheel:
            assert self.headers["Authorization"].startswith("Basic ")
            self.answer(f'<a href="/{wheel.name}">{wheel.name}</a>'.encode(), "text/html")
        elif wheel and place == f"/{wheel.name}":
            self.answer(wheel.read_bytes())
        elif place == "merge_requests/7/notes?per_page=100":
            notes = [{"id": int(n), "body": text} for n, text in self.server.notes.items()]
            self.answer(json.dumps([{"id": 4, "body": "Nice!"}, *notes]).encode())
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        assert self.path == "/api/v4/projects/3/merge_requests/7/notes"
        self.keep("5")

    def do_PUT(self) -> None:
        assert self.path == "/api/v4/projects/3/merge_requests/7/notes/5"
        self.keep("5")

    def keep(self, number: str) -> None:
        assert self.headers["PRIVATE-TOKEN"] == "comment-token"
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.notes[number] = f"{form['body'][0]}by {self.command}"
        self.answer(b"{}")

    def answer(self, data: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def service(main: Path) -> Iterator[Service]:
    (wheel,) = (main / "gh" / "release").iterdir()
    with Service(wheel) as server:
        threading.Thread(target=server.serve_forever).start()
        yield server
        server.shutdown()


def test_a_merge_request_on_gitlab(
    main: Path, links: Path, tmp_path: Path, service: Service
) -> None:
    for number in range(3):
        shutil.copytree(
            main / "caches" / f"aotbuild-{number}-1", tmp_path / "caches" / f"aotbuild-{number + 1}"
        )
    project = example(tmp_path)
    lose_a_signature(project)
    variables = {
        "CI_API_V4_URL": f"http://127.0.0.1:{service.server_port}/api/v4",
        "CI_SERVER_HOST": "127.0.0.1",
        "CI_PROJECT_ID": "3",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_JOB_TOKEN": "job-token",
        "COMMENT_TOKEN": "comment-token",
        **places(tmp_path, links),
    }
    machine = Machine(tmp_path, project, links, tmp_path / "programs", variables)
    gitlab = GitLab(machine, ROOT / "example_project" / ".gitlab-ci.yml")
    gitlab.file["variables"]["JAX"] = JAX
    assert gitlab.run("build"), "\n".join(machine.log)
    assert gitlab.run("wheel"), "\n".join(machine.log)
    for method in ("POST", "PUT"):
        assert gitlab.run("comment"), "\n".join(machine.log)
        (note,) = service.notes.values()
        assert note.startswith("<!-- aotbuild diff -->\n### digits: ")
        assert LOST in note
        assert note.endswith(f"by {method}")
    uploaded = machine.programs / "uploaded"
    machine.programs.mkdir()
    twine = machine.programs / "twine"
    twine.write_text(f'#!/bin/sh\necho "$TWINE_USERNAME" "$@" > {uploaded}\n')
    twine.chmod(0o755)
    gitlab.file["release"]["script"].remove("python -m pip install twine")
    assert gitlab.run("release"), machine.log[-1]
    packages = f"{variables['CI_API_V4_URL']}/projects/3/packages/pypi"
    asked = f"gitlab-ci-token upload --repository-url {packages} dist/digits_classifier-"
    assert uploaded.read_text().startswith(asked)
