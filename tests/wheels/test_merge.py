"""`aotbuild merge`: wheels from several machines, toolchains or a split become one wheel."""

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
from support.reports import FITTING, make_function, make_record, write_stages
from support.wheel_files import (
    contents,
    everywhere,
    for_target,
    put_wheel,
    text,
    with_provenance,
)

import aotbuild
from aotbuild.build.requirements import pins
from aotbuild.errors import NoExecutable, WheelRefused
from aotbuild.format.layout import stages_path
from aotbuild.format.left_out import AllLeftOut, LeftOut, left_out_header, read_left_out
from aotbuild.format.padding import PaddedDim, Padding
from aotbuild.format.record import Record
from aotbuild.runtime.source import open_index
from aotbuild.runtime.wheel_source import WheelSource
from aotbuild.verify.api import Options, verify
from aotbuild.wheels.merge import merge
from aotbuild.wheels.split import split

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
        merge(wheels, out)
    assert not out.exists()
    return caught.value


class TestMachines:
    def test_one_wheel_for_both(
        self, x86: Path, arm: Path, native: Built, exported: Built, tmp_path: Path
    ) -> None:
        (merged,) = merge([x86, arm], tmp_path / "out").wheels
        assert merged.name == BOTH
        parsed = Parser().parsestr(text(merged, "/WHEEL"))
        assert parsed.get_all("Tag") == [
            "py3-none-manylinux_2_27_aarch64",
            "py3-none-manylinux_2_27_x86_64",
        ]
        assert targets(merged) == sorted(
            ["cpu:aarch64:1", str(native.record.target), str(exported.record.target)]
        )
        report = verify(str(merged), Options(load=False))
        assert report.passed, report
        np.testing.assert_array_equal(aotbuild.load(merged).double(X), X * 2)

    def test_portable_forms_alone_add_no_platform(
        self, native: Built, exported: Built, tmp_path: Path
    ) -> None:
        parts = [put(tmp_path / X86, [native]), put(tmp_path / PORTABLE, [exported])]
        (merged,) = merge(parts, tmp_path / "out").wheels
        assert merged.name == X86
        assert "Tag: py3-none-any\n" not in text(merged, "/WHEEL")
        assert len(records(merged)) == 2

    def test_the_order_does_not_matter(self, x86: Path, arm: Path, tmp_path: Path) -> None:
        one, other = (
            merge(order, tmp_path / name).wheels[0]
            for name, order in (("a", [x86, arm]), ("b", [arm, x86]))
        )
        assert one.name == other.name
        assert contents(one) == contents(other)

    def test_code_and_metadata_stay(self, x86: Path, arm: Path, tmp_path: Path) -> None:
        (merged,) = merge([x86, arm], tmp_path / "out").wheels
        assert contents(merged)["demo/__init__.py"] == contents(x86)["demo/__init__.py"]
        assert text(merged, "/METADATA") == text(x86, "/METADATA")

    def test_of_equal_records_that_were_measured_otherwise_one_stays(
        self, native: Built, exported: Built, x86: Path, tmp_path: Path
    ) -> None:
        other = put(tmp_path / ARM, [native, with_provenance(exported, xla_flags="--other")])
        (merged,) = merge([x86, other], tmp_path / "out").wheels
        assert len(records(merged)) == 2

    def test_kept_stages_go_along(self, tmp_path: Path) -> None:
        kept = [{"hlo": b"for x86"}, {"hlo": b"for arm"}]
        made = []
        for name, target, stages in zip((X86, ARM), ("x86-64-v3", "aarch64"), kept, strict=True):
            record = make_record(target=f"cpu:{target}:1", stages=stages, data=target.encode())
            made.append(record)
            item = Built(make_function(**FITTING), record, {record.blob.path: target.encode()})
            header = {"stages": "beside", "package": "demo", "jaxlib": "0.10.2"}
            needed = ("aotbuild>=0.1", "jaxlib==0.10.2")
            wheel = put(tmp_path / name, [item], requires=needed, header=header)
            write_stages(stages_path(wheel), [record], stages)
        written = merge([tmp_path / X86, tmp_path / ARM], tmp_path / "out")
        assert written.beside == (stages_path(written.wheels[0]),)
        shown = run("inspect", written.wheels[0], "--hlo", "--target", "cpu:aarch64:1").stdout
        assert shown.strip() == "for arm"


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
        (merged,) = merge([newer, older], tmp_path / "out").wheels
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
        (merged,) = merge([newer, older], tmp_path / "out").wheels
        found = [record for record in records(merged) if record.target.is_portable]
        assert [record.provenance["jax"] for record in found] == ["0.9.0"]
        jaxlibs = {r.requires.jaxlib for r in records(merged) if not r.target.is_portable}
        assert jaxlibs == {"0.9.0", jaxlib.__version__}

    def test_it_is_a_whole_wheel(self, older: Path, newer: Path, tmp_path: Path) -> None:
        (merged,) = merge([newer, older], tmp_path / "out").wheels
        report = verify(str(merged), Options(load=False))
        assert report.passed, report


class TestParts:
    def test_what_was_split_is_whole_again(
        self, native: Built, exported: Built, tmp_path: Path
    ) -> None:
        wheel = put(tmp_path / X86, everywhere([native, exported]))
        parts = split(wheel, tmp_path / "parts", ["portable"]).wheels
        (merged,) = merge(parts, tmp_path / "out").wheels
        before, after = contents(wheel), contents(merged)
        record = f"{wheels.INFO}/RECORD"
        assert sorted(before.pop(record).split()) == sorted(after.pop(record).split())
        assert after == before

    def test_with_a_wheel_of_another_machine(
        self, native: Built, exported: Built, arm: Path, tmp_path: Path
    ) -> None:
        wheel = put(tmp_path / X86, everywhere([native, exported]))
        parts = split(wheel, tmp_path / "parts").wheels
        (merged,) = merge([*parts, arm], tmp_path / "out").wheels
        assert merged.name == BOTH
        assert len(records(merged)) == 5
        assert {"cpu:aarch64:1", "tpu:v5e:2x2:1"} < set(targets(merged))

    def test_a_missing_companion(self, native: Built, exported: Built, tmp_path: Path) -> None:
        wheel = put(tmp_path / X86, everywhere([native, exported]))
        base, cuda, _ = split(wheel, tmp_path / "parts").wheels
        error = refused([base, cuda], tmp_path / "out")
        assert (error.problem, error.reasons) == ("companions are missing", ("demo-aot-tpu",))

    def test_a_companion_of_another_build(
        self, native: Built, exported: Built, tmp_path: Path
    ) -> None:
        one = put(tmp_path / X86, everywhere([native, exported]))
        other = put(tmp_path / "other" / X86, everywhere([native]))
        base = split(one, tmp_path / "one").wheels[0]
        stray = split(other, tmp_path / "two").wheels[1]
        error = refused([base, stray], tmp_path / "out")
        assert error.problem == "a companion without the base that it was split from"


class TestManifestsThatDiffer:
    def test_a_function_that_only_one_has(self, native: Built, x86: Path, tmp_path: Path) -> None:
        other = for_target(build("triple", lambda x: x * 3, {"x": X}), "cpu:aarch64:1")
        arm = put(tmp_path / ARM, [for_target(native, "cpu:aarch64:1"), other])
        written = merge([x86, arm], tmp_path / "out")
        here = str(native.record.target)
        note = f"function triple has no executable for {here}: not in {x86}"
        assert written.notes == (note,)
        library = aotbuild.load(written.wheels[0])
        assert library.functions == ("double", "triple")
        np.testing.assert_array_equal(library.double(X), X * 2)
        with pytest.raises(NoExecutable, match="aarch64"):
            library.triple(X)
        assert verify(str(written.wheels[0]), Options(load=False)).passed

    def test_functions_that_are_shared_out(self, x86: Path, tmp_path: Path) -> None:
        """As machines do that share a build: wheels of the same name, and nothing is missing."""
        other = put(tmp_path / "other" / X86, [build("triple", lambda x: x * 3, {"x": X})])
        written = merge([x86, other], tmp_path / "out")
        assert written.notes == ()
        np.testing.assert_array_equal(aotbuild.load(written.wheels[0]).triple(X), X * 3)

    def test_sizes_of_a_dim(self, native: Built, x86: Path, tmp_path: Path) -> None:
        larger = build("double", lambda x: x * 2, {"x": np.zeros(9, np.float32)})
        other = put(tmp_path / "other" / X86, [larger])
        (merged,) = merge([x86, other], tmp_path / "out").wheels
        library = aotbuild.load(merged)
        for size in (3, 9):
            np.testing.assert_array_equal(library.double(np.ones(size, np.float32)), 2)

    def test_sizes_of_a_padded_dim_on_the_same_targets(self, tmp_path: Path) -> None:
        """As machines do that share a build."""
        one, other = (put(tmp_path / str(size) / X86, [padded(size, [size])]) for size in (4, 9))
        (merged,) = merge([other, one], tmp_path / "out").wheels
        (function,) = open_index(WheelSource(merged)).functions()
        assert function.pad is not None
        assert function.pad.buckets == ((4,), (9,))
        library = aotbuild.load(merged)
        np.testing.assert_array_equal(library.double(np.ones(3, np.float32)), 2 * np.ones(3))
        np.testing.assert_array_equal(library.double(np.ones(6, np.float32)), 2 * np.ones(6))
        assert verify(str(merged), Options(load=False)).passed

    def test_sizes_of_a_padded_dim_on_other_targets(self, tmp_path: Path) -> None:
        one = put(tmp_path / X86, [padded(4, [4])])
        other = put(tmp_path / ARM, [for_target(padded(9, [9]), "cpu:aarch64:1")])
        (reason,) = refused([one, other], tmp_path / "out").reasons
        assert reason.startswith(
            "function double: pad: n has the sizes [4] and [9]; a call is padded to the nearest "
            "one, which not all of cpu:aarch64:1, "
        )

    def test_one_pads_and_the_other_does_not(self, tmp_path: Path) -> None:
        built = padded(4, [4])
        one = put(tmp_path / X86, [built])
        plain = replace(built, function=replace(built.function, pad=None))
        other = put(tmp_path / ARM, [for_target(plain, "cpu:aarch64:1")])
        (reason,) = refused([one, other], tmp_path / "out").reasons
        assert reason == "function double: pad: the wheels pad it in different ways"


def padded(size: int, buckets: list[int]) -> Built:
    built = build("double", lambda x: x * 2, {"x": np.zeros(size, np.float32)})
    axes = (((0, 0),),)
    padding = Padding((PaddedDim("n", 0.0),), tuple((bucket,) for bucket in buckets), axes, axes)
    return replace(built, function=replace(built.function, pad=padding))


class TestRefused:
    def test_two_executables_for_the_same(self, native: Built, x86: Path, tmp_path: Path) -> None:
        other = for_target(native, str(native.record.target))
        error = refused([x86, put(tmp_path / ARM, [other])], tmp_path / "out")
        assert error.problem == "they cannot be one wheel"
        (reason,) = error.reasons
        assert "two executables for the same call and target" in reason

    def test_other_constants_that_no_golden_outputs_tell_apart(
        self, native: Built, tmp_path: Path
    ) -> None:
        traces = [{"constants": digit * 64, "operations": digit * 64} for digit in "12"]
        built = replace(native, record=replace(native.record, golden=None))
        here = with_provenance(built, trace=traces[0])
        there = with_provenance(for_target(built, "cpu:aarch64:1"), trace=traces[1])
        wheels = [put(tmp_path / X86, [here]), put(tmp_path / ARM, [there])]
        (reason,) = refused(wheels, tmp_path / "out").reasons
        assert "have different constants, and without golden outputs nothing tells" in reason
        there = with_provenance(there, trace=traces[0])
        assert merge([wheels[0], put(tmp_path / "same" / ARM, [there])], tmp_path / "out").wheels

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

    def test_an_option_that_only_one_version_of_jax_has_is_not_compared(
        self, native: Built, tmp_path: Path
    ) -> None:
        here = with_provenance(native, config={"jax_enable_x64": False, "jax_of_old": 1})
        there = with_provenance(
            for_target(native, "cpu:aarch64:1"), config={"jax_enable_x64": False, "jax_of_new": 2}
        )
        wheels = [put(tmp_path / X86, [here]), put(tmp_path / ARM, [there])]
        assert merge(wheels, tmp_path / "out").wheels

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

    def test_another_version(self, native: Built, x86: Path, tmp_path: Path) -> None:
        name, info = ARM.replace("1.0", "2.0"), "demo-2.0.dist-info"
        arm = put(tmp_path / "two" / ARM, [for_target(native, "cpu:aarch64:1")])
        files = {}
        for file, data in contents(arm).items():
            changed = data.replace(b"Version: 1.0\nR", b"Version: 2.0\nR")
            files[file.replace("-1.0.", "-2.0.")] = changed
        files[f"{info}/RECORD"] = _record(files, info)
        newer = wheels.write_wheel(tmp_path / name, files.items())
        (reason,) = refused([x86, newer], tmp_path / "out").reasons
        assert reason == f"{newer}: expected demo 1.0 (1.0), found demo 2.0 (2.0)"

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

    @pytest.mark.parametrize(
        ("requires", "header", "reason"),
        [
            ("numpy", {"jax": "new"}, "the index says jax 'new', which is no version"),
            ("jax==0.0.1", {}, "jax==0.0.1, jax==0.0.2: the indexes do not say their jax"),
        ],
    )
    def test_what_nobody_can_read(
        self, native: Built, tmp_path: Path, requires: str, header: dict[str, str], reason: str
    ) -> None:
        given = [*wheels.REQUIRES, "jax==0.0.2"]
        others = [*wheels.REQUIRES, requires]
        one = put(tmp_path / X86, [native], requires=given)
        built = [for_target(native, "cpu:aarch64:1")]
        other = put_wheel(tmp_path / ARM, built, requires=others, header=header or None)
        error = refused([one, other], tmp_path / "out")
        assert error.reasons == (reason,)

    def test_one_wheel(self, x86: Path, tmp_path: Path) -> None:
        assert refused([x86, x86], tmp_path / "out").problem == "nothing to merge"

    def test_no_wheel(self, tmp_path: Path) -> None:
        (tmp_path / "wheel.zip").touch()
        result = run("merge", tmp_path / "wheel.zip", "--out", tmp_path, code=7)
        assert "not the name of a wheel" in result.stderr


def test_command(x86: Path, arm: Path, tmp_path: Path) -> None:
    result = run("merge", x86, arm, "--out", tmp_path / "out", "--json")
    document = json.loads(result.stdout)
    assert document["wheels"][0]["path"] == str(tmp_path / "out" / BOTH)
    assert document["from"] == [str(x86), str(arm)]
    shown = run("merge", x86, arm, "--out", tmp_path / "out", code=6)
    assert "is there already" in shown.stderr


def _record(files: wheels.Files, info: str) -> bytes:
    del files[f"{info}/RECORD"]
    return wheels.record_of(files).replace(wheels.INFO.encode(), info.encode())


def _with_blob(built: Built, data: bytes) -> Built:
    from support.reports import make_blob

    blob = make_blob(data, built.record.blob.kind)
    return Built(built.function, replace(built.record, blob=blob), {blob.path: data})


class TestLeftOut:
    """Units that failed when a wheel was built, and that another wheel may have."""

    def put(self, path: Path, built: list[Built], *failed: LeftOut) -> Path:
        header = {"package": "demo", "jaxlib": jaxlib.__version__, "fallback": "none"}
        return put(path, built, header={**header, **left_out_header(AllLeftOut(failed))})

    def test_what_another_wheel_has_is_there(
        self, native: Built, exported: Built, tmp_path: Path
    ) -> None:
        native = with_provenance(native, label="double()")
        arm = for_target(native, "cpu:aarch64:1")
        here = LeftOut("double", "double()", str(native.record.target), "compile", "crashed")
        unit = replace(here, jaxlib=native.record.requires.jaxlib)
        lost = replace(unit, signature="double(k=3)", reason="too large")
        a = self.put(tmp_path / X86, [native, exported], lost)
        b = self.put(tmp_path / ARM, [arm, exported], unit, lost)
        (merged,) = merge([a, b], tmp_path / "out").wheels
        assert read_left_out(open_index(WheelSource(merged)).header).units == (lost,)
        assert verify(str(merged), Options(load=False)).passed

    def test_a_function_of_which_all_units_failed_in_one_wheel(
        self, native: Built, exported: Built, tmp_path: Path
    ) -> None:
        other = with_provenance(build("triple", lambda x: x * 3, {"x": X}), label="triple()")
        arm = for_target(native, "cpu:aarch64:1")
        failed = LeftOut("triple", "triple()", "cpu:aarch64:1", "trace", "no", "0.10.2")
        a = self.put(tmp_path / X86, [native, exported, other])
        b = self.put(tmp_path / ARM, [arm, exported], failed)
        for order in ([a, b], [b, a]):
            (merged,) = merge(order, tmp_path / f"out{order.index(a)}").wheels
            index = open_index(WheelSource(merged))
            assert sorted(function.name for function in index.functions()) == ["double", "triple"]
            assert read_left_out(index.header).units == (failed,)
