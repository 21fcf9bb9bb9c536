"""Toolchains: which environment builds, what uv makes of one, and what is said where it cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pytest
from support.fake_index import NEW, OLD, PYTHON
from support.fake_index import index as index  # a fixture
from support.manifests import whole

from aotbuild.build.wheel_metadata import build_requirements
from aotbuild.build.worker_settings import Settings
from aotbuild.errors import PlanError
from aotbuild.manifest import Manifest, load_manifest
from aotbuild.toolchains.environments import find_environment, make_environments
from aotbuild.toolchains.toolchain import Environment, Toolchain, probe
from aotbuild.toolchains.uv import cache_root, find_python, running_python
from aotbuild.toolchains.wanted import worker_requirements

JAX = metadata.version("jax")
OTHER = OLD if JAX == NEW else NEW
HERE = running_python()
WORKER = {requirement.split(">")[0] for requirement in worker_requirements()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    return place


def read(folder: Path, extra: str = "") -> Manifest:
    path = folder / "aot.yaml"
    path.write_text(whole(extra))
    return load_manifest(path)


def environment(folder: Path, extra: str = "", project: tuple[str, ...] = ()) -> Environment:
    return find_environment(read(folder, extra), project)


def toolchain(folder: Path, extra: str = "", project: tuple[str, ...] = ()) -> Toolchain:
    (found,) = environment(folder, extra, project).toolchains
    return found


def made(folder: Path, extra: str = "", project: tuple[str, ...] = ()) -> Toolchain:
    found = toolchain(folder, extra, project)
    make_environments([found])
    return found


def installed(found: Toolchain) -> dict[str, str]:
    code = "import json; from importlib.metadata import distributions as d; "
    code += "print(json.dumps({i.name.lower().replace('_', '-'): i.version for i in d()}))"
    done = subprocess.run(
        [str(found.interpreter), "-I", "-c", code], capture_output=True, check=True
    )
    return dict(json.loads(done.stdout))


def refusal(folder: Path, extra: str, project: tuple[str, ...] = ()) -> str:
    with pytest.raises(PlanError) as caught:
        made(folder, extra, project)
    return str(caught.value)


class TestTheRunningEnvironment:
    @pytest.mark.parametrize(
        "extra",
        [
            "",
            f"toolchains: [{{jax: {JAX}}}]\n",
            f'toolchains: [{{jax: {JAX}, python: "{HERE}"}}]\n',
            f"toolchains: [{{jax: {JAX}.0}}]\n",
        ],
    )
    def test_is_used_where_it_fits(self, index: Path, folder: Path, extra: str) -> None:
        found = environment(folder, extra)
        assert found == probe()
        assert found.toolchains[0].interpreter is None

    @pytest.mark.parametrize(
        ("extra", "project"),
        [
            (f"toolchains: [{{jax: {OTHER}}}]\n", ()),
            ('targets: [{tpu: {topology: "v5e:2x2"}}]\n', ()),
            ("", (f"jax=={OTHER}",)),
            ("", ("numpy", f"jaxlib == {OTHER}")),
        ],
    )
    @pytest.mark.process
    def test_is_not_where_something_is_missing(
        self, index: Path, folder: Path, extra: str, project: tuple[str, ...]
    ) -> None:
        found = toolchain(folder, extra, project)
        assert found.recipe is not None
        assert found.jax == (OTHER if OTHER in f"{extra}{project}" else JAX)

    @pytest.mark.parametrize(
        "own", [f"jax=={JAX}", f"jaxlib=={JAX}", "jax>=0.10", f"jax=={OTHER}; os_name == 'nt'"]
    )
    def test_is_that_of_the_project(self, index: Path, folder: Path, own: str) -> None:
        assert environment(folder, project=(own,)) == probe()

    def test_what_a_build_environment_needs_for_it(self, tmp_path: Path) -> None:
        def needed(extra: str) -> list[str]:
            return build_requirements(read(tmp_path, extra), ["numpy"])

        assert needed("") == ["jax>=0.10.2", "numpy"]
        assert needed("toolchains: [{jax: 0.10.2}]\n") == ["jax==0.10.2", "numpy"]
        tpu = 'targets: [{tpu: {topology: "v5e:2x2"}}]\n'
        assert needed(tpu) == ["jax>=0.10.2"]
        assert build_requirements(read(tmp_path, tpu), ["jax==0.11.2"]) == []
        slim = ["jaxlib==0.11.2"]
        assert build_requirements(read(tmp_path), slim) == ["jax==0.11.2", *slim]
        for by_uv in (
            f"{tpu}toolchains: [{{jax: 0.10.2}}]\n",
            "toolchains: [{jax: 0.10.2}, {jax: 0.12.0.1}]\n",
            'toolchains: [{jax: 0.10.2, python: "3.9"}]\n',
        ):
            assert needed(by_uv) == []
        (tmp_path / "pylock.aot-jax0_10_2.toml").touch()
        assert needed("toolchains: [{jax: 0.10.2}]\n") == []


class TestMadeByUv:
    @pytest.mark.process
    def test_has_exactly_what_it_needs(self, index: Path, folder: Path) -> None:
        extra = f'toolchains: [{{jax: {OTHER}}}]\ntargets: [{{tpu: {{topology: "v5e:2x2"}}}}]\n'
        project = (
            "aotbuild>=5",
            "einops>=1",
            "numpy; python_version > '3'",
            "other; python_version < '3'",
        )
        found = made(folder, extra, project)
        assert (found.jax, found.jaxlib, found.plugins) == (
            OTHER,
            OTHER,
            (("libtpu", f"0.{OTHER}"),),
        )
        names = {"jax", "jaxlib", "libtpu", "einops", "numpy", *WORKER}
        assert set(installed(found)) == names

    @pytest.mark.process
    def test_a_half_made_one_is_made_again(self, index: Path, folder: Path) -> None:
        found = made(folder, f"toolchains: [{{jax: {OTHER}}}]\n")
        assert found.interpreter is not None
        place = found.interpreter.parent.parent
        (place / "complete").unlink()
        (place / "left over").touch()
        make_environments([found])
        assert not (place / "left over").exists()
        assert installed(found)["jax"] == OTHER

    @pytest.mark.process
    def test_builds_side_by_side_make_it_once(self, index: Path, folder: Path) -> None:
        found = toolchain(folder, f"toolchains: [{{jax: {OTHER}}}]\n")
        said: list[str] = []
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: make_environments([found], said.append), range(4)))
        waited = [line for line in said if line.startswith("waiting for another build, which has ")]
        made = [line for line in said if line.startswith("making the environment of ")]
        assert (len(waited), len(made), len(said)) == (3, 1, 5)
        assert installed(found)["jax"] == OTHER

    @pytest.mark.process
    def test_its_worker_imports_nothing_of_the_parents(self, index: Path, folder: Path) -> None:
        found = made(folder, f"toolchains: [{{jax: {OTHER}}}]\n")
        (folder / "probe.py").write_text(
            "import json, sys, aotbuild\n"
            "print(json.dumps([sys.path, aotbuild.__file__]), flush=True)\n"
        )
        (folder / "yaml.py").write_text("")
        command = Settings(found, "cpu", None, 1, False, (), ()).command(folder)
        code = f"import sys, types; sys.argv = {command[2:]!r}\n"
        code += "probe = types.SimpleNamespace(main=lambda: __import__('probe'))\n"
        code += "sys.modules['aotbuild.worker.main'] = probe\n"
        code += "from importlib.util import spec_from_file_location as s, module_from_spec as m\n"
        code += "spec = s('start', sys.argv[0]); start = m(spec); spec.loader.exec_module(start)\n"
        code += "start.start()\n"
        done = subprocess.run(
            [command[0], "-P", "-c", code], capture_output=True, text=True, check=True
        )
        path, own = json.loads(done.stdout)
        parents = {entry for entry in sys.path if entry.endswith("site-packages")}
        assert path[0] == str(folder)
        assert parents & set(path) == set()
        assert Path(own).name == "__init__.py"


class TestRefused:
    @pytest.mark.process
    def test_an_unknown_jax(self, index: Path, folder: Path) -> None:
        message = refusal(folder, "toolchains: [{jax: 0.11.5}]\n")
        first, *middle, remedy = message.splitlines()
        place = folder / "aot.yaml"
        assert first == (
            f"{place}: toolchains.0 (jax 0.11.5): uv cannot resolve it for Python {HERE}"
        )
        assert "there is no version of jax==0.11.5" in " ".join(" ".join(middle).split())
        assert remedy.startswith("Change jax: or python: of the toolchain")

    @pytest.mark.process
    def test_a_python_that_is_not_here(self, index: Path, folder: Path) -> None:
        for version in ("3.12", "3.13", "3.98"):
            if find_python(version) is None:
                missing = version
        tag = f"cp{missing.replace('.', '')}"
        for wheel in index.glob(f"*{PYTHON}-{PYTHON}*"):
            wheel.rename(wheel.with_name(wheel.name.replace(PYTHON, tag)))
        message = refusal(folder, f'toolchains: [{{jax: {OTHER}, python: "{missing}"}}]\n')
        assert message.startswith(f"uv cannot make the environment of jax {OTHER}")
        assert f"Install Python {missing}, or let uv download it" in message

    @pytest.mark.process
    def test_a_wheel_that_is_not_what_was_locked(
        self, index: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = toolchain(folder, f"toolchains: [{{jax: {OTHER}}}]\n")
        assert found.recipe is not None
        head, wheel, tail = found.recipe.lock.partition(f"jax-{OTHER}-py3-none-any.whl")
        digest = tail.partition('sha256 = "')[2][:64]
        forged = head + wheel + tail.replace(digest, "0" * 64)
        (folder / f"pylock.aot-jax{OTHER.replace('.', '_')}.toml").write_text(forged)
        monkeypatch.setenv("UV_CACHE_DIR", str(folder / "uv"))  # what is cached is trusted
        message = refusal(folder, f"toolchains: [{{jax: {OTHER}}}]\n")
        assert "hash mismatch" in message.lower()
        assert digest in message


def test_a_place_of_toolchains_is_absolute() -> None:
    """A relative one was put into the project, and shipped in its source distribution."""
    for text in ("tc", "./tc", "~nobody-of-this-name/tc"):
        with pytest.raises(PlanError, match="AOTBUILD_TOOLCHAINS: expected an absolute path"):
            cache_root({"AOTBUILD_TOOLCHAINS": text})
    assert cache_root({"AOTBUILD_TOOLCHAINS": "~/tc"}) == Path.home() / "tc"


def test_a_place_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_TOOLCHAINS", "/proc/none")
    with pytest.raises(PlanError) as caught:
        environment(folder, f"toolchains: [{{jax: {OTHER}}}]\n")
    assert str(caught.value).splitlines()[1:] == [
        "  expected a folder that can be written: the toolchains that uv makes are kept there",
        "  found    No such file or directory: /proc/none",
        "Set AOTBUILD_TOOLCHAINS to such a folder.",
    ]
