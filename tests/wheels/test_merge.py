"""`aotbuild merge`: wheels or `_aot` folders from several machines or toolchains become one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from email.parser import Parser
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np
import pytest
from attacks import wheels
from support.cli import run
from support.packages import Built, build, portable
from support.reports import make_blob
from support.wheel_files import contents, for_target, put_wheel, text, with_provenance

import aotbuild
from aotbuild.build.wheel_metadata import pins
from aotbuild.errors import NoExecutable, WheelRefused
from aotbuild.format.padding import PaddedDim, Padding
from aotbuild.format.record import Golden, Record
from aotbuild.format.tensors import write_tensors
from aotbuild.runtime.checked_blobs import open_index
from aotbuild.runtime.wheel_source import WheelSource
from aotbuild.verify.api import verify
from aotbuild.wheels.merge import merge_wheels

X = np.arange(3, dtype=np.float32)
X86 = "demo-1.0-py3-none-manylinux_2_27_x86_64.whl"
PORTABLE = "demo-1.0-py3-none-any.whl"
ARM = "demo-1.0-py3-none-manylinux_2_27_aarch64.whl"
BOTH = "demo-1.0-py3-none-manylinux_2_27_aarch64.manylinux_2_27_x86_64.whl"


@pytest.fixture(scope="module")
def native() -> Built:
    return build("double", lambda x: x * 2, {"x": X})


@pytest.fixture(scope="module")
def exported(native: Built) -> Built:
    return with_provenance(portable(native, lambda x: x * 2), jax=jax.__version__)


@pytest.fixture
def x86(native: Built, exported: Built, tmp_path: Path) -> Path:
    return put(tmp_path / X86, [native, exported])


@pytest.fixture
def arm(native: Built, exported: Built, tmp_path: Path) -> Path:
    return put(tmp_path / ARM, [for_target(native, "cpu:aarch64:1"), exported])


def put(path: Path, built: Iterable[Built], **options: Any) -> Path:
    tag = path.stem.split("-", 2)[2]
    wheel = f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    changes = {f"{wheels.INFO}/WHEEL": wheel, **options.pop("changes", {})}
    return put_wheel(path, built, changes=changes, **options)


def records(wheel: Path) -> list[Record]:
    index = open_index(WheelSource(wheel))
    return [record for f in index.functions() for record in index.records(f.name)]


def targets(wheel: Path) -> list[str]:
    return sorted(str(record.target) for record in records(wheel))


def refused(wheels: list[Path], out: Path) -> WheelRefused:
    with pytest.raises(WheelRefused) as caught:
        merge_wheels(wheels, out)
    assert not out.exists()
    return caught.value


class TestMachines:
    def test_one_wheel_for_both(
        self, x86: Path, arm: Path, native: Built, exported: Built, tmp_path: Path
    ) -> None:
        merged = merge_wheels([x86, arm], tmp_path / "out")
        assert merged.name == BOTH
        parsed = Parser().parsestr(text(merged, "/WHEEL"))
        assert parsed.get_all("Tag") == [
            "py3-none-manylinux_2_27_aarch64",
            "py3-none-manylinux_2_27_x86_64",
        ]
        assert targets(merged) == sorted(
            ["cpu:aarch64:1", str(native.record.target), str(exported.record.target)]
        )
        report = verify(str(merged), load=False)
        assert report.passed, report
        np.testing.assert_array_equal(aotbuild.load(merged).double(X), X * 2)

    def test_portable_forms_alone_add_no_platform(
        self, native: Built, exported: Built, tmp_path: Path
    ) -> None:
        parts = [put(tmp_path / X86, [native]), put(tmp_path / PORTABLE, [exported])]
        merged = merge_wheels(parts, tmp_path / "out")
        assert merged.name == X86
        assert "Tag: py3-none-any\n" not in text(merged, "/WHEEL")
        assert len(records(merged)) == 2

    def test_the_order_does_not_matter(self, x86: Path, arm: Path, tmp_path: Path) -> None:
        one, other = (
            merge_wheels(order, tmp_path / name)
            for name, order in (("a", [x86, arm]), ("b", [arm, x86]))
        )
        assert one.name == other.name
        assert contents(one) == contents(other)

    def test_of_equal_records_that_were_measured_otherwise_one_stays(
        self, native: Built, exported: Built, x86: Path, tmp_path: Path
    ) -> None:
        other = put(tmp_path / ARM, [native, with_provenance(exported, xla_flags="--other")])
        merged = merge_wheels([x86, other], tmp_path / "out")
        assert len(records(merged)) == 2


class TestToolchains:
    """The same machine and target, two versions of jax."""

    @pytest.fixture
    def older(self, native: Built, exported: Built, tmp_path: Path) -> Path:
        record = native.record
        requires = replace(record.requires, jaxlib="0.9.0")
        old = [
            for_target(
                replace(native, record=replace(record, requires=requires)),
                str(record.target),
                jaxlib="0.9.0",
            ),
            with_provenance(_with_blob(exported, b"an older artifact"), jax="0.9.0"),
        ]
        lines = ("aotbuild>=0.1,<0.2", "jaxlib==0.9.0", "jax==0.9.0", "flatbuffers")
        header = {"jaxlib": "0.9.0", "jax": "0.9.0"}
        return put(tmp_path / "older" / X86, old, requires=lines, header=header)

    @pytest.fixture
    def newer(self, native: Built, exported: Built, tmp_path: Path) -> Path:
        lines = (*wheels.REQUIRES, f"jax=={jax.__version__}")
        header = {"jaxlib": jaxlib.__version__, "jax": jax.__version__}
        return put(tmp_path / "newer" / X86, [native, exported], requires=lines, header=header)

    def test_all_versions_are_allowed(self, older: Path, newer: Path, tmp_path: Path) -> None:
        merged = merge_wheels([newer, older], tmp_path / "out")
        found = Parser().parsestr(text(merged, "/METADATA")).get_all("Requires-Dist") or []
        assert set(found) == {
            "aotbuild>=0.1,<0.2",
            *pins("jaxlib", ["0.9.0", jaxlib.__version__], native=True, portable=True),
            *pins("jax", ["0.9.0", jax.__version__], native=True, portable=True),
            "flatbuffers",
        }
        header = open_index(WheelSource(merged)).header
        assert header["jaxlib"] == f"0.9.0, {jaxlib.__version__}"
        assert header["jax"] == f"0.9.0, {jax.__version__}"

    def test_the_portable_artifact_of_the_oldest_stays(
        self, older: Path, newer: Path, tmp_path: Path
    ) -> None:
        merged = merge_wheels([newer, older], tmp_path / "out")
        found = [record for record in records(merged) if record.target.is_portable]
        assert [record.provenance["jax"] for record in found] == ["0.9.0"]
        jaxlibs = {r.requires.jaxlib for r in records(merged) if not r.target.is_portable}
        assert jaxlibs == {"0.9.0", jaxlib.__version__}


class TestManifestsThatDiffer:
    def test_a_function_that_only_one_has(self, native: Built, x86: Path, tmp_path: Path) -> None:
        other = for_target(build("triple", lambda x: x * 3, {"x": X}), "cpu:aarch64:1")
        arm = put(tmp_path / ARM, [for_target(native, "cpu:aarch64:1"), other])
        merged = merge_wheels([x86, arm], tmp_path / "out")
        library = aotbuild.load(merged)
        assert library.functions == ("double", "triple")
        np.testing.assert_array_equal(library.double(X), X * 2)
        with pytest.raises(NoExecutable, match="aarch64"):
            library.triple(X)
        assert verify(str(merged), load=False).passed

    def test_one_pads_and_the_other_does_not(self, tmp_path: Path) -> None:
        built = padded(4, [4])
        one = put(tmp_path / X86, [built])
        plain = replace(built, function=replace(built.function, pad=None))
        other = put(tmp_path / ARM, [for_target(plain, "cpu:aarch64:1")])
        (reason,) = refused([one, other], tmp_path / "out").reasons
        assert reason.startswith(f"{other}: function double: pad: expected {{")
        assert reason.endswith("found null")


def padded(size: int, buckets: list[int]) -> Built:
    built = build("double", lambda x: x * 2, {"x": np.zeros(size, np.float32)})
    axes = (((0, 0),),)
    padding = Padding((PaddedDim("n", 0.0),), tuple((bucket,) for bucket in buckets), axes, axes)
    return replace(built, function=replace(built.function, pad=padding))


class TestRefused:
    def test_two_executables_for_the_same(self, native: Built, x86: Path, tmp_path: Path) -> None:
        other = for_target(native, str(native.record.target))
        error = refused([x86, put(tmp_path / ARM, [other])], tmp_path / "out")
        assert error.problem == "they cannot be one package"
        (reason,) = error.reasons
        assert "two executables for the same call and target" in reason

    @pytest.mark.parametrize(
        ("settings", "reason"),
        [
            (({"env": "1" * 64}, {}), "env: other variables or values"),
            (({"env": "1" * 64}, {"env": "2" * 64}), "env: other variables or values"),
            (
                ({"config": {"jax_enable_x64": False}}, {"config": {"jax_enable_x64": True}}),
                "config: jax_enable_x64: expected false, found true",
            ),
        ],
    )
    def test_other_settings_of_a_function(
        self, native: Built, settings: tuple[Any, Any], reason: str, tmp_path: Path
    ) -> None:
        here = with_provenance(native, **settings[0])
        there = with_provenance(for_target(native, "cpu:aarch64:1"), **settings[1])
        wheels = [put(tmp_path / X86, [here]), put(tmp_path / ARM, [there])]
        found = refused(wheels, tmp_path / "out").reasons
        assert found == (f"{wheels[1]}: function double: {reason}",)

    def test_references_to_two_templates(self, native: Built, x86: Path, tmp_path: Path) -> None:
        place = ("x.fn", (0, 0), 1)
        one, other = (
            replace(native, function=replace(native.function, references=((*place, like),)))
            for like in ("demo.m:one", "demo.m:other")
        )
        x86 = put(tmp_path / X86, [one])
        arm = put(tmp_path / ARM, [for_target(other, "cpu:aarch64:1")])
        (reason,) = refused([x86, arm], tmp_path / "out").reasons
        expected = "function double compares x.fn with demo.m:other, not with demo.m:one"
        assert reason == f"{arm}: {expected}"

    def test_all_that_differs_is_said(self, native: Built, x86: Path, tmp_path: Path) -> None:
        changed = {"demo/__init__.py": b"# other", "demo/more.py": b""}
        function = replace(native.function, call="demo.other:double")
        built = for_target(replace(native, function=function), "cpu:aarch64:1")
        requires = [*wheels.REQUIRES, "numpy<2"]
        arm = put(tmp_path / ARM, [built], changes=changed, requires=requires)
        error = refused([x86, arm], tmp_path / "out")
        assert error.reasons == (
            f"{arm}: demo/__init__.py differs",
            f"{arm}: demo/more.py is only here",
            f'{arm}: function double: call: expected "nowhere:nothing", found "demo.other:double"',
            f"{arm}: the project's own requirements differ: numpy<2",
        )

    def test_another_fallback(self, native: Built, x86: Path, tmp_path: Path) -> None:
        arm = put(tmp_path / ARM, [for_target(native, "cpu:aarch64:1")], header={"fallback": "jit"})
        (reason,) = refused([x86, arm], tmp_path / "out").reasons
        words = "the indexes differ in fallback: 'jit' and 'none'; choose with --fallback"
        assert reason == words
        run("merge", x86, arm, "--out", tmp_path / "out", "--fallback", "jit")
        assert open_index(WheelSource(tmp_path / "out" / BOTH)).header["fallback"] == "jit"

    def test_no_tag_says_just_these(self, native: Built, tmp_path: Path) -> None:
        names = ["demo-1.0-cp311-none-linux_x86_64.whl", "demo-1.0-cp312-none-linux_aarch64.whl"]
        built = [native, for_target(native, "cpu:aarch64:1")]
        given = [put(tmp_path / n, [b]) for n, b in zip(names, built, strict=True)]
        (reason,) = refused(given, tmp_path / "out").reasons
        assert reason.startswith("no tag of a wheel says just cp311-none-linux_x86_64, ")


def test_golden_outputs_tell_that_builds_traced_different_programs(
    native: Built, x86: Path, tmp_path: Path
) -> None:
    given = []
    for number, built in ((2.0, native), (3.0, for_target(native, "cpu:aarch64:1"))):
        data = write_tensors({"0": ("f4", (3,), np.full(3, number, np.float32).tobytes())})
        blob = make_blob(data, "safetensors")
        record = replace(built.record, golden=Golden((), blob))
        item = Built(native.function, record, {**built.blobs, blob.path: data})
        given.append(put(tmp_path / str(number) / X86, [item]))
    (reason,) = refused(given, tmp_path / "out").reasons
    assert "return different golden outputs: a module probably draws random numbers" in reason


def test_command(x86: Path, arm: Path, tmp_path: Path) -> None:
    result = run("merge", x86, arm, "--out", tmp_path / "out", "--json")
    document = json.loads(result.stdout)
    assert document["wheels"][0]["path"] == str(tmp_path / "out" / BOTH)
    assert document["from"] == [str(x86), str(arm)]
    shown = run("merge", x86, arm, "--out", tmp_path / "out", code=6)
    assert "is there already" in shown.stderr


def _with_blob(built: Built, data: bytes) -> Built:
    blob = make_blob(data, built.record.blob.kind)
    return Built(built.function, replace(built.record, blob=blob), {blob.path: data})
