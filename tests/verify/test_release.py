"""`aotbuild release-check`: what breaks a release is found before an index has it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jaxlib
import numpy as np
import pytest
from attacks import wheels
from support.cli import run
from support.packages import Built, build, portable
from support.wheel_files import contents, everywhere, for_target, put_wheel

from aotbuild.build.requirements import pins
from aotbuild.verify.release import read_release
from aotbuild.verify.release_checks import Finding, check_release
from aotbuild.wheels.split import split

JAXLIB = jaxlib.__version__
X = np.arange(3, dtype=np.float32)
X86 = "demo-1.0-py3-none-manylinux_2_27_x86_64.whl"
ARM = "demo-1.0-py3-none-manylinux_2_27_aarch64.whl"
ANY = "demo-1.0-py3-none-any.whl"
SDIST = "demo-1.0.tar.gz"
PROJECT = b"[tool.hatch.build.targets.wheel.hooks.aotbuild]\n"


@pytest.fixture(scope="module")
def native() -> Built:
    return build("double", lambda x: x * 2, {"x": X})


@pytest.fixture(scope="module")
def exported(native: Built) -> Built:
    return portable(native, lambda x: x * 2)


def put(path: Path, built: Iterable[Built], **options: Any) -> Path:
    tag = path.stem.split("-", 2)[2]
    changes = {f"{wheels.INFO}/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n".encode()}
    return put_wheel(path, built, changes=changes, **options)


@pytest.fixture
def x86(native: Built, exported: Built, tmp_path: Path) -> Path:
    return put(tmp_path / X86, [native, exported])


@pytest.fixture
def arm(native: Built, exported: Built, tmp_path: Path) -> Path:
    return put(tmp_path / ARM, [for_target(native, "cpu:aarch64:1"), exported])


def sdist(path: Path, *dynamic: str, **files: bytes) -> Path:
    info = ["Metadata-Version: 2.4", "Name: demo", "Version: 1.0"]
    info += [f"Dynamic: {name}" for name in dynamic]
    members = {"PKG-INFO": "\n".join([*info, ""]).encode(), "pyproject.toml": PROJECT}
    members |= {"aot.yaml": b"", **files}
    with tarfile.open(path, "w:gz") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(f"{path.name.removesuffix('.tar.gz')}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def findings(*paths: Path) -> list[Finding]:
    return check_release(read_release(paths))


def only(*paths: Path) -> Finding:
    (found,) = findings(*paths)
    return found


class TestNothingIsWrong:
    def test_two_machines_and_a_source_distribution(
        self, x86: Path, arm: Path, tmp_path: Path
    ) -> None:
        assert findings(x86, arm, sdist(tmp_path / SDIST, "Requires-Dist")) == []

    def test_a_split_with_a_portable_wheel(
        self, native: Built, exported: Built, tmp_path: Path
    ) -> None:
        wheel = put(tmp_path / X86, everywhere([native, exported]))
        assert findings(*split(wheel, tmp_path / "out", portable=True).wheels[:1]) != []
        # The companions of these have the tag of the base, and the records are texts.
        assert findings(*split(wheel, tmp_path / "all", portable=True).wheels) == []

    def test_wheels_of_other_projects(self, x86: Path, tmp_path: Path) -> None:
        files = {
            "other/__init__.py": b"",
            "other-2.dist-info/METADATA": b"Metadata-Version: 2.1\nName: other\nVersion: 2\n",
            "other-2.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
        }
        rows = [f"{name},{wheels.hash_of(data)},{len(data)}" for name, data in files.items()]
        files["other-2.dist-info/RECORD"] = "\n".join(
            [*rows, "other-2.dist-info/RECORD,,", ""]
        ).encode()
        other = wheels.write_wheel(tmp_path / "other-2-py3-none-any.whl", files.items())
        assert findings(x86, other) == []


class TestMetadata:
    def test_a_portable_wheel_of_another_manifest(
        self, native: Built, exported: Built, tmp_path: Path
    ) -> None:
        requires = ["aotbuild>=0.1,<0.2", "flatbuffers"]
        exact, least = ([*requires, f"jaxlib{text}"] for text in (f"=={JAXLIB}", f">={JAXLIB}"))
        one = put(tmp_path / X86, [native, exported], requires=exact)
        other = put(tmp_path / ANY, [exported], requires=least)
        found = only(one, other)
        assert found.check == "metadata"
        assert found.problem == "the files of demo 1.0 state different metadata"
        assert found.reasons == (
            f"{X86}: Requires-Dist: jaxlib=={JAXLIB}",
            f"{ANY}: Requires-Dist: jaxlib>={JAXLIB}",
        )
        assert "let `aotbuild split --portable` make the portable wheel" in found.remedy

    def test_extras_of_companions_in_one_wheel_only(
        self, native: Built, exported: Built, arm: Path, tmp_path: Path
    ) -> None:
        wheel = put(tmp_path / X86, everywhere([native, exported]))
        found = only(*split(wheel, tmp_path / "out").wheels, arm)
        assert f"{X86}: Provides-Extra: cuda" in found.reasons
        assert "Merge the wheels of all machines before you split them" in found.remedy

    def test_another_jax(self, native: Built, exported: Built, tmp_path: Path) -> None:
        lines = ("aotbuild>=0.1,<0.2", "flatbuffers", "jax==0.10.1", f"jaxlib=={JAXLIB}")
        one = put(tmp_path / X86, [native], requires=lines)
        other = put(
            tmp_path / ARM, [for_target(native, "cpu:aarch64:1")], requires=[*lines, "jax==0.10.2"]
        )
        found = only(one, other)
        assert found.reasons == (f"{ARM}: Requires-Dist: jax==0.10.2",)
        assert 'local-version = "jax"' in found.remedy

    def test_spelling_is_no_difference(self, native: Built, tmp_path: Path) -> None:
        lines = pins("jaxlib", [JAXLIB], native=True, portable=True)
        first = [*wheels.REQUIRES[:1], "flatbuffers", *lines]
        other = [line.replace('"', "'").replace("; ", " ;  ") for line in first]
        other[0] = "aotbuild <0.2, >=0.1"
        arm = put(tmp_path / ARM, [for_target(native, "cpu:aarch64:1")], requires=first)
        found = findings(put(tmp_path / X86, [native], requires=other), arm)
        assert [finding.check for finding in found] == []

    def test_a_source_distribution_with_other_requirements(self, x86: Path, tmp_path: Path) -> None:
        found = only(x86, sdist(tmp_path / SDIST))
        assert (found.check, found.files) == ("metadata", (x86, tmp_path / SDIST))


class TestNames:
    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            (
                "demo-1.0-py3-none-manylinux_2_27_aarch64.manylinux_2_27_x86_64.whl",
                "py3-none-manylinux_2_27_x86_64: an installer takes either",
            ),
            (
                "demo-1.0-1-py3-none-manylinux_2_27_x86_64.whl",
                "py3-none-manylinux_2_27_x86_64: the higher build number hides the other",
            ),
            (
                "demo-1.0-py3-none-manylinux_2_28_x86_64.whl",
                "_2_28_x86_64 takes one, and never the other",
            ),
        ],
    )
    def test_one_hides_the_other(
        self, name: str, problem: str, x86: Path, native: Built, exported: Built, tmp_path: Path
    ) -> None:
        other = put_wheel(tmp_path / "other" / name, [native, exported])
        found = only(x86, other)
        assert (found.check, set(found.files)) == ("names", {x86, other})
        assert found.problem.endswith(problem)

    def test_a_local_version_hides_the_plain_one(self, native: Built, tmp_path: Path) -> None:
        plain = put(tmp_path / X86, [native])
        files = {
            name.replace("-1.0.", "-1.0+jax1."): data.replace(
                b"Version: 1.0\nR", b"Version: 1.0+jax1\nR"
            )
            for name, data in contents(plain).items()
            if not name.endswith("/RECORD")
        }
        rows = wheels.record_of(files).replace(wheels.INFO.encode(), b"demo-1.0+jax1.dist-info")
        files["demo-1.0+jax1.dist-info/RECORD"] = rows
        name = X86.replace("1.0", "1.0+jax1")
        local = wheels.write_wheel(tmp_path / name, files.items())
        found = [finding for finding in findings(plain, local) if finding.fails]
        assert [finding.problem for finding in found] == [
            "installers prefer 1.0+jax1 and never take 1.0"
        ]

    def test_executables_for_any_platform(self, native: Built, tmp_path: Path) -> None:
        found = only(put(tmp_path / ANY, [native]))
        assert found.problem == "it says that it fits any platform, and holds executables"
        assert found.reasons == (str(native.record.target),)


class TestSdist:
    @pytest.mark.parametrize(
        "name",
        ["demo/_aot/index", "build/aot/demo/_aot/index", f"out/blobs/{64 * 'a'}.pjrt"],
    )
    def test_it_holds_executables(self, name: str, x86: Path, tmp_path: Path) -> None:
        found = only(x86, sdist(tmp_path / SDIST, "requires-dist", **{name: b""}))
        assert (found.check, found.reasons) == ("sdist", (name,))
        assert 'build-backend = "hatch_aotbuild.backend"' in found.remedy

    def test_it_lacks_the_manifest(self, tmp_path: Path) -> None:
        table = PROJECT + b'manifest = "conf/aot.yaml"\n'
        found = only(sdist(tmp_path / SDIST, **{"pyproject.toml": table}))
        problem = "it lacks the manifest conf/aot.yaml: a build needs it, or AOTBUILD_MANIFEST"
        assert found.problem == problem


class TestCompanions:
    @pytest.fixture
    def parts(self, native: Built, exported: Built, tmp_path: Path) -> tuple[Path, ...]:
        wheel = put(tmp_path / X86, everywhere([native, exported]))
        return split(wheel, tmp_path / "out").wheels

    def test_one_is_missing(self, parts: tuple[Path, ...]) -> None:
        found = only(*parts[:2])
        assert (found.check, found.files) == ("companions", parts[:1])
        assert found.problem == "its companion demo-aot-tpu is missing"

    def test_one_is_of_another_build(
        self, parts: tuple[Path, ...], native: Built, tmp_path: Path
    ) -> None:
        other = put(tmp_path / "other" / X86, everywhere([native]))
        stray = split(other, tmp_path / "again").wheels[2]
        found = findings(*parts[:2], stray)
        assert [finding.problem for finding in found] == [
            "its companion demo-aot-tpu is of another build",
            "it is a companion, and its base is missing or of another build",
        ]


class TestFiles:
    def test_a_damaged_wheel(self, x86: Path) -> None:
        data = bytearray(x86.read_bytes())
        at = data.index(b"demo/_aot/index") + 200
        data[at] ^= 1
        x86.write_bytes(data)
        assert only(x86).check == "verify"

    def test_a_damaged_source_distribution(self, tmp_path: Path) -> None:
        path = sdist(tmp_path / SDIST)
        data = bytearray(path.read_bytes())
        data[-8] ^= 1  # the checksum
        path.write_bytes(data)
        assert only(path).check == "file"

    @pytest.mark.parametrize("name", ["demo.whl", ANY, SDIST])
    def test_what_cannot_be_read(self, name: str, tmp_path: Path) -> None:
        (tmp_path / name).write_bytes(b"no archive")
        assert only(tmp_path / name).check == "file"

    def test_notes(self, native: Built, tmp_path: Path) -> None:
        lines = [*wheels.REQUIRES, "einops @ https://example.org/einops-1.whl"]
        path = put(tmp_path / "demo-1.0-py3-none-linux_x86_64.whl", [native], requires=lines)
        stages = tmp_path / "demo.stages.zip"
        stages.touch()
        found = findings(path, stages)
        assert [(finding.fails, finding.problem.partition(":")[0]) for finding in found] == [
            (False, "PyPI refuses requirements with a URL"),
            (False, "PyPI refuses the platform linux_…; jaxlib's own wheels are for manylinux_…"),
            (False, "neither a wheel nor a source distribution"),
        ]


class TestCommand:
    def test_text(self, x86: Path, arm: Path) -> None:
        shown = run("release-check", x86, arm).stdout.splitlines()
        assert shown[0].split() == ["FILE", "PROJECT", "SIZE"]
        assert shown[-1] == "nothing is wrong"

    def test_a_problem(self, native: Built, tmp_path: Path) -> None:
        wheel = put(tmp_path / ANY, [native])
        shown = run("release-check", wheel, code=9).stdout
        assert "names: it says that it fits any platform, and holds executables\n" in shown
        assert shown.endswith("\n1 problem: do not publish these files\n")

    def test_files_of_one_name_are_told_apart(self, x86: Path, native: Built) -> None:
        other = put_wheel(x86.parent / "other" / x86.name, [native])
        shown = run("release-check", x86, other, code=9).stdout
        assert f"\n  {x86}\n  {other}\n" in shown

    def test_what_cannot_be_read_is_one_line(self, tmp_path: Path) -> None:
        (tmp_path / SDIST).touch()
        shown = run("release-check", tmp_path / SDIST, code=9).stdout
        head = "file: cannot be read as what its name says"
        end = "1 problem: do not publish these files\n"
        assert shown.endswith(f"\n{head}\n  {SDIST}\n    empty file\n\n{end}")

    def test_a_folder_stands_for_its_files(self, x86: Path, arm: Path) -> None:
        (x86.parent / ".gitignore").write_text("*")
        assert arm.parent == x86.parent
        assert run("release-check", x86.parent).stdout == run("release-check", arm, x86).stdout

    def test_a_folder_without_files(self, tmp_path: Path) -> None:
        assert "there are no files in this folder" in run("release-check", tmp_path, code=2).stderr

    def test_json(self, native: Built, tmp_path: Path) -> None:
        wheel = put(tmp_path / ANY, [native])
        document = json.loads(run("release-check", wheel, "--json", code=9).stdout)
        assert document["passed"] is False
        (problem,) = document["problems"]
        assert (problem["check"], problem["files"]) == ("names", [str(wheel)])

    @pytest.mark.process
    def test_it_needs_the_standard_library_alone(self, x86: Path) -> None:
        missing = ("jax", "numpy", "packaging", "pydantic", "rich", "yaml")
        code = (
            "import sys; sys.modules.update(dict.fromkeys("
            f"{missing!r})); from aotbuild.cli.app import run; sys.exit(run(sys.argv[1:]))"
        )
        command = [sys.executable, "-c", code, "release-check", str(x86)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
