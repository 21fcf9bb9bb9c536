"""Wheels as wheels: built by pip in isolation, their exact contents, installed and called."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.cli import invoke
from support.forks import forked
from support.installs import build_wheel, install_by_uv, pip
from support.projects import copy_project

from aotbuild.verify.api import verify
from aotbuild.wheels.split import split

pytestmark = pytest.mark.wheel

JAX = metadata.version("jax")
JAXLIB = metadata.version("jaxlib")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return copy_project("../../example_project", tmp_path / "project")


SMALL = f"""\
version: 1
package: digits
toolchains: [{{jax: {JAX}}}]
functions:
  embed:
    call: digits.model:embed
    args:
      - params: {{like: "digits.model:load_params"}}
      - images: f32[1,8,8]
    verify: {{golden: never}}
"""


@pytest.fixture
def small(project: Path) -> Path:
    """The project with one function, where it does not matter which."""
    (project / "aot.yaml").write_text(SMALL)
    return project


@pytest.fixture(name="wheel", scope="module")
def _wheel(example_wheel: Path) -> Path:
    return example_wheel


@pytest.fixture(name="installed", scope="module")
def _installed(example_python: Path) -> Path:
    return example_python


def member(wheel: Path, suffix: str) -> str:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(suffix))
        return archive.read(name).decode()


class TestOwnWheel:
    def test_metadata_and_contents(self, links: Path) -> None:
        (own,) = links.glob("aotbuild-*.whl")
        with ZipFile(own) as archive:
            names = set(archive.namelist())
        tops = {name.split("/")[0] for name in names}
        assert tops == {"aotbuild", "hatch_aotbuild", "aotbuild-0.1.0.dist-info"}
        assert {"aotbuild/py.typed", "hatch_aotbuild/py.typed"} <= names
        required = Parser().parsestr(member(own, "/METADATA")).get_all("Requires-Dist") or []
        assert all("extra ==" in line for line in required)
        assert "hatch_aotbuild.hooks" in member(own, "/entry_points.txt")


class TestExampleWheel:
    def test_name(self, wheel: Path) -> None:
        platform = wheel.stem.removeprefix("digits_classifier-0.1.0-py3-none-")
        assert platform.startswith(("manylinux_", "macosx_")), wheel.name

    def test_exact_file_set(self, wheel: Path) -> None:
        with ZipFile(wheel) as archive:
            names = archive.namelist()
        blobs = [name for name in names if name.startswith("digits/_aot/blobs/")]
        stems = [Path(name).stem for name in blobs]
        assert Counter(Path(name).suffix for name in blobs) == {
            ".pjrt": 8,
            ".stablehlo": 8,
            ".safetensors": 5,  # golden outputs of the first sizes
        }
        assert all(len(stem) == 64 for stem in stems)
        assert sorted(set(names) - set(blobs)) == [
            "digits/__init__.py",
            "digits/__main__.py",
            "digits/_aot/index",
            "digits/data.py",
            "digits/heldout.npz",
            "digits/model.py",
            "digits/weights.npz",
            "digits_classifier-0.1.0.dist-info/METADATA",
            "digits_classifier-0.1.0.dist-info/RECORD",
            "digits_classifier-0.1.0.dist-info/WHEEL",
        ]

    def test_metadata(self, wheel: Path) -> None:
        parsed = Parser().parsestr(member(wheel, "/METADATA"))
        plain = [r for r in parsed.get_all("Requires-Dist") or [] if "extra" not in r]
        assert sorted(plain) == [
            "aotbuild<0.2,>=0.1",
            "flatbuffers>=24.3",
            f"jax=={JAX}; sys_platform == 'linux'",
            f"jax>={JAX}; sys_platform != 'linux'",
            f"jaxlib=={JAXLIB}; sys_platform == 'linux'",
            f"jaxlib>={JAXLIB}; sys_platform != 'linux'",
            "numpy",
        ]

    def test_wheel_file(self, wheel: Path) -> None:
        parsed = Parser().parsestr(member(wheel, "/WHEEL"))
        assert parsed["Root-Is-Purelib"] == "false"
        assert parsed.get_all("Tag") == [wheel.stem.split("-", 2)[2]]


@pytest.mark.any_jax
class TestParts:
    def test_each_loads_and_proves_its_own_executables(self, wheel: Path, tmp_path: Path) -> None:
        parts = split(wheel, tmp_path / "parts", ["portable"])
        assert len(parts) == 2
        for part in parts:
            report = verify(str(part))
            assert report.passed, report


class TestInstalled:
    def test_environment_has_no_build_tools(self, installed: Path, links: Path) -> None:
        listed = pip(installed, "list", "--format=freeze", links=links).lower()
        names = {line.partition("==")[0] for line in listed.split()}
        assert names & {"hatchling", "pyyaml", "pydantic", "rich", "packaging"} == set()
        assert {"aotbuild", "jax", "jaxlib", "digits-classifier"} <= names

    @pytest.mark.parametrize(
        ("command", "code"),
        [
            (("inspect", "digits"), 0),
            (("inspect", "digits", "--json"), 0),
            (("doctor", "digits"), 5),  # one function needs two devices
            (("verify", "digits", "--no-run"), 0),
            (("verify", "digits"), 0),
            (("diff", "digits", "digits"), 0),
            (("plan",), 2),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
    )
    def test_the_command_line_of_an_environment_without_build_tools(
        self, command: tuple[str, ...], code: int, installed: Path, tmp_path: Path
    ) -> None:
        done = subprocess.run(
            [installed, "-m", "aotbuild", *command], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == code, done.stderr
        assert ("install aotbuild[build]" in done.stderr) is (code == 2)

    def test_every_function_without_compiling(self, installed: Path, tmp_path: Path) -> None:
        script = tmp_path / "call.py"
        script.write_text(
            "import jax, numpy as np\n"
            "events = []\n"
            "jax.monitoring.register_event_duration_secs_listener(\n"
            "    lambda n, s, **_: events.append(n) if '/compile/' in n else None)\n"
            "import aotbuild\n"
            "from digits.data import load_params, load_heldout\n"
            "lib, params = aotbuild.load('digits'), load_params()\n"
            "assert set(lib.functions) == {'predict', 'embed', 'top_k', 'predict_sharded'}\n"
            "x = np.random.default_rng(0).random((32, 8, 8), np.float32)\n"
            "outs = [lib.predict(params, x[:n]) for n in (1, 8, 32)]\n"
            "outs += [lib.embed(params, x), lib.top_k(params, x[:1], k=3)]\n"
            "outs += [lib.predict_sharded(params, x)]\n"
            "jax.block_until_ready(outs)\n"
            "assert not events, events\n"
            "from digits.model import predict\n"
            "np.testing.assert_allclose(outs[2], jax.jit(predict)(params, x), atol=1e-5)\n"
            "np.testing.assert_allclose(outs[-1], outs[2], atol=1e-5)\n"
            "assert len(outs[-1].sharding.device_set) == 2\n"
        )
        env = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [installed, "-P", script], capture_output=True, text=True, env=env, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr

    def test_loads_from_the_wheel_file_itself(self, wheel: Path, tmp_path: Path) -> None:
        code = (
            "import aotbuild, numpy as np;"
            f"lib = aotbuild.load({str(wheel)!r});"
            f"import sys; sys.path.insert(0, {str(wheel)!r});"
            "import json; print(json.dumps(sorted(lib.functions)))"
        )
        assert "predict_sharded" in forked(code)


@pytest.mark.any_jax
def test_the_hook_and_the_command_build_one_package(small: Path, tmp_path: Path) -> None:
    wheel = build_wheel(small, tmp_path / "out")
    assert invoke("build", small / "aot.yaml", "--out", tmp_path / "_aot").exit_code == 0
    places = (wheel, tmp_path / "_aot")
    documents = [json.loads(invoke("inspect", place, "--json").stdout) for place in places]
    assert documents[0]["digest"] == documents[1]["digest"]


@pytest.mark.any_jax
class TestRefusing:
    def build_broken(self, project: Path, old: str, new: str, file: str = "aot.yaml") -> str:
        place, out = project / file, project.parent / "out"
        text = place.read_text()
        assert old in text
        place.write_text(text.replace(old, new))
        with pytest.raises(subprocess.CalledProcessError) as caught:
            build_wheel(project, out)
        assert list(out.iterdir()) == []
        return str(caught.value.output)

    def test_manifest_error(self, project: Path) -> None:
        output = self.build_broken(project, "batch: [1, 8, 32]", "bacth: [1]")
        place = "aot.yaml:18:17: functions.predict.args.images"
        assert f"{place}: unknown dim 'batch' (did you mean 'bacth'?)" in output
        assert "Traceback" not in output


@pytest.mark.any_jax
class TestSdist:
    def test_has_no_executables(self, project: Path, links: Path, tmp_path: Path) -> None:
        """And needs no jax."""
        for place in ("digits/_aot/index", "build/aot/digits/_aot/index"):
            (project / place).parent.mkdir(parents=True, exist_ok=True)
            (project / place).touch()
        python = install_by_uv(tmp_path / "env", "hatchling", "aotbuild[build]", links=links)
        code = (
            "from hatch_aotbuild.backend import build_sdist; import importlib.util as util\n"
            f"print(util.find_spec('jax'), build_sdist({str(tmp_path)!r}))"
        )
        done = subprocess.run(
            [python, "-P", "-B", "-c", code], capture_output=True, text=True, cwd=project
        )
        assert done.returncode == 0, done.stderr
        without_jax, name = done.stdout.split()
        assert without_jax == "None"
        listing = subprocess.run(
            ["tar", "-tzf", tmp_path / name], capture_output=True, text=True
        ).stdout
        assert "digits/model.py" in listing
        assert "aot.yaml" in listing
        assert [name for name in listing.split() if "_aot" in name or "/build/" in name] == []
