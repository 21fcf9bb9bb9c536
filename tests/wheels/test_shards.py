"""Joining `_aot` folders of shards: what makes a whole package, and one clear error for the rest.

The shards are written by hand, from records; `e2e/test_shards.py` builds some.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cli import run
from support.installs import tree_of
from support.reports import make_blob, make_function, make_record

from aotbuild.build.assemble import assemble
from aotbuild.build.pack import finish, new_package
from aotbuild.build.results import PlanFacts, Planned, Result, ShardFile
from aotbuild.build.shares import Share
from aotbuild.errors import BuildError, DamagedBlob, UnitFailure, WheelRefused
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import Index, write_index
from aotbuild.format.record import Golden, Record
from aotbuild.format.shard import Shard, ShardHeader
from aotbuild.format.sources import SourceDigests
from aotbuild.format.tensors import write_tensors
from aotbuild.runtime.source import DirectorySource, open_index
from aotbuild.wheels.shards import merge_folders, read_part

FACTS = PlanFacts(
    manifest="0" * 64,
    aotbuild="0.1.0",
    package="pack",
    fallback="none",
    stages="beside",
    platform="manylinux_2_27_x86_64",
    toolchains=(("0.10.2", "0.10.2", "jax 0.10.2, jaxlib 0.10.2, Python 3.11.7"),),
)
COUNT = 5
SHARDS = (1, 2, 3, 1, 2)
SOURCES = SourceDigests({"pack/m.py": "1" * 64}, "", "aot.yaml")


def label(number: int) -> str:
    return f"f(batch={number + 1}) for cpu:x86-64-v3:1"


LABELS = tuple(map(label, range(COUNT)))


def data(number: int) -> bytes:
    return f"executable {number}".encode()


def result(number: int, **changes: Any) -> Result:
    record = make_record("f", number + 1, data=data(number))
    unit = Planned(number, "f", label(number), "batch", str(record.target), 0, "0.10.2")
    return replace(Result(unit, make_function("f"), record), **changes)


def failed(number: int) -> Result:
    found = result(number, record=None)
    return replace(found, failure=UnitFailure(found.unit.label, "trace", "no"))


def put(
    root: Path,
    number: int,
    *,
    facts: PlanFacts = FACTS,
    shards: Sequence[int] = SHARDS,
    of: int = 3,
    keep_going: bool = False,
    sources: SourceDigests = SOURCES,
    labels: tuple[str, ...] = LABELS,
    results: Sequence[Result] | None = None,
    data_files: dict[str, str] | None = None,
) -> Path:
    """Write the folder of one shard; `results` are those of its units."""
    if results is None:
        results = [result(place) for place, owner in enumerate(shards) if owner == number]
    made = assemble(facts, results, sources)
    file = ShardFile(
        facts, labels, tuple(shards), keep_going, sources, tuple(results), data_files or {}
    )
    made = Share(Shard(number, of), tuple(shards)).mark(made, file)
    staging = fill(root, [r.record for r in results if r.record])
    (staging / "shard").write_bytes(file.to_bytes())
    finish(staging, root / "_aot", made, made.records)
    return root / "_aot"


def fill(root: Path, records: Sequence[Record]) -> Path:
    (root / "new").mkdir(parents=True)
    staging = new_package(root / "new")
    for number in range(COUNT):
        blob = make_record("f", data=data(number)).blob
        if any(blob in record.blobs() for record in records):
            (staging / blob.path).write_bytes(data(number))
    return staging


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    return [put(tmp_path / f"{number}", number) for number in (1, 2, 3)]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out" / "_aot"


def whole(root: Path, results: Sequence[Result]) -> dict[str, bytes]:
    """Return the files that one build of everything writes."""
    made = assemble(FACTS, results, SOURCES)
    finish(fill(root, made.records), root / "_aot", made, made.records)
    return tree_of(root / "_aot")


class TestJoined:
    def test_any_order_makes_the_whole(self, shards: list[Path], out: Path, tmp_path: Path) -> None:
        expected = whole(tmp_path / "whole", [result(number) for number in range(COUNT)])
        for order in (shards, shards[::-1], [*shards, shards[0]]):
            merge_folders(order, out)
            assert tree_of(out) == expected

    def test_a_copy_of_a_shard_is_that_shard(
        self, shards: list[Path], out: Path, tmp_path: Path
    ) -> None:
        merge_folders([*shards, put(tmp_path / "again", 2)], out)
        assert len(tree_of(out)) == 1 + COUNT

    def test_data_files_are_compared_and_left_out(self, out: Path, tmp_path: Path) -> None:
        data_files = {"pack/settings.json": "4" * 64}
        parts = [put(tmp_path / f"{n}", n, data_files=data_files) for n in (1, 2, 3)]
        assert b'"data":{"pack/settings.json"' in (parts[0] / "shard").read_bytes()
        merge_folders(parts, out)
        assert tree_of(out) == whole(tmp_path / "whole", [result(n) for n in range(COUNT)])

    def test_a_shard_may_be_empty(self, out: Path, tmp_path: Path) -> None:
        parts = [put(tmp_path / f"{n}", n, of=7) for n in range(1, 8)]
        merge_folders(parts, out)
        assert tree_of(out) == whole(tmp_path / "whole", [result(n) for n in range(COUNT)])

    def test_the_command_says_what_it_made(self, shards: list[Path], out: Path) -> None:
        assert run("merge", *shards, "--out", out).stdout == f"{out}  5 units, 5.47 kB\n"
        document = json.loads(run("merge", *shards, "--out", out, "--json").stdout)
        assert document["folder"] == str(out)
        assert document["failures"] == []

    def test_units_that_all_may_lack_are_left_out(self, out: Path, tmp_path: Path) -> None:
        results = [result(0), failed(1), *map(result, range(2, COUNT))]
        parts = [
            put(
                tmp_path / f"{n}",
                n,
                keep_going=True,
                results=[r for r in results if SHARDS[r.unit.number] == n],
            )
            for n in (1, 2, 3)
        ]
        ended = run("merge", *parts, "--out", out, code=10)
        assert "1 build units failed and were left out:\n" in ended.stderr
        assert tree_of(out) == whole(tmp_path / "whole", results)

    def test_a_unit_that_only_the_whole_contradicts(self, out: Path, tmp_path: Path) -> None:
        twin = replace(result(1), record=make_record("f", 1, data=data(1)))
        parts = [put(tmp_path / f"{n}", n) for n in (1, 3)]
        parts.append(put(tmp_path / "2", 2, results=[twin, result(4)]))
        with pytest.raises(BuildError) as caught:
            merge_folders(parts, out)
        (failure,) = caught.value.failures
        assert (failure.unit, failure.stage) == (label(1), "pack")
        assert failure.message == f"has the same signature as {label(0)}; remove one of them"
        assert not out.exists()


PLAN = (
    "Build all shards from the same sources and data files, with the same manifest, versions and "
    "targets."
)
SPLIT = (
    "Build all of them as shards of one number. Shares are balanced by the times in the store, so "
    "shards take one store (AOTBUILD_STORE), or AOTBUILD_TIMES=off, which counts units alone."
)
ALL = "Give one build of each shard; build those that are missing."
AGAIN = "Build the shard again."


def of_others(number: int) -> Sequence[Result]:
    return [result(place) for place in range(COUNT) if SHARDS[place] == number]


# What a whole file of a shard may say that no build writes.
WRONG: dict[str, dict[str, Any]] = {
    "fewer shards than units": {"shards": (1, 2, 3)},
    "fewer units than shards": {"labels": LABELS[:2]},
    "a shard that there is not": {"shards": (1, 2, 9, 1, 2)},
    "no shard": {"shards": (1, 2, 0, 1, 2)},
    "a digest that is a number": {"sources": SourceDigests({"a.py": 1}, "", "aot.yaml")},  # type: ignore[dict-item]
    "no folder": {"sources": SourceDigests({}, None, "aot.yaml")},  # type: ignore[arg-type]
    "another word for yes": {"keep_going": "yes"},
    "a unit twice": {"results": [result(0), result(3), result(0)]},
    "a unit of another shard": {"results": of_others(2)},
    "a unit that the plan lacks": {
        "results": [replace(result(0), unit=replace(result(0).unit, number=7))]
    },
    "a toolchain that the plan lacks": {
        "results": [replace(result(0), unit=replace(result(0).unit, toolchain=3))]
    },
    "neither done nor failed": {"results": [result(0, record=None)]},
    "done and failed": {"results": [replace(failed(0), record=result(0).record)]},
}


@dataclass
class Bytes:
    """A place that has one file."""

    data: bytes

    def read(self, name: str, /) -> bytes:
        return self.data


@pytest.mark.parametrize("what", WRONG)
def test_a_file_that_contradicts_itself(shards: list[Path], out: Path, what: str) -> None:
    """It has the digest that its header names; one error says what is wrong all the same."""
    folder = shards[0]
    index = open_index(DirectorySource(folder))
    file = ShardFile.from_bytes((folder / "shard").read_bytes())
    names = {"labels": "units"}
    changed = replace(file, **{names.get(name, name): v for name, v in WRONG[what].items()})
    data = changed.to_bytes()
    digests = (changed.plan, changed.split, sha256_hex(data))
    header = ShardHeader(Shard(1, 3), *digests).to_header()
    index = replace(index, header={**index.header, **header})
    with pytest.raises(WheelRefused) as caught:
        read_part(str(folder), Bytes(data), index)
    assert caught.value.problem == "its results cannot be read"
    assert caught.value.remedy == AGAIN
    assert not out.exists()


class TestRefused:
    """Nothing is written, and the error names the shards, what is wrong and what to do."""

    def refused(self, folders: Sequence[Path], out: Path) -> WheelRefused:
        with pytest.raises(WheelRefused) as caught:
            merge_folders(folders, out)
        assert not out.exists()
        return caught.value

    def reasons(self, folders: Sequence[Path], out: Path, remedy: str) -> list[str]:
        error = self.refused(folders, out)
        assert error.problem == "these shards are not one package"
        assert error.remedy == remedy
        return list(error.reasons)

    def test_one_is_missing(self, shards: list[Path], out: Path) -> None:
        assert self.reasons(shards[1:], out, ALL) == [
            f"shard 1/3 is missing (it has {label(0)}, {label(3)}): aotbuild build --shard 1/3"
        ]

    def test_one_alone(self, shards: list[Path], out: Path) -> None:
        assert len(self.reasons(shards[:1], out, ALL)) == 2

    def test_two_builds_of_one(self, shards: list[Path], out: Path, tmp_path: Path) -> None:
        other = replace(result(2), record=make_record("f", 3, data=data(0)))
        again = put(tmp_path / "again", 3, results=[other])
        assert self.reasons([*shards, again], out, ALL) == [
            f"shard 3/3 is there in 2 builds that differ: {shards[2]}, {again}"
        ]

    def test_units_are_missing(self, shards: list[Path], out: Path, tmp_path: Path) -> None:
        part = put(tmp_path / "part", 2, results=[result(1)])
        assert self.reasons([shards[0], part, shards[2]], out, ALL) == [
            f"{part}, shard 2/3: no result of {label(4)}"
        ]

    def test_another_split(self, shards: list[Path], out: Path, tmp_path: Path) -> None:
        other = put(tmp_path / "other", 3, shards=(1, 2, 1, 3, 2))
        assert self.reasons([*shards[:2], other], out, SPLIT) == [
            "1/3, 2/3 agree",
            "3/3 agrees with no other shard",
            f"built by none of them: {label(2)}",
        ]

    def test_another_number(self, shards: list[Path], out: Path, tmp_path: Path) -> None:
        other = put(tmp_path / "other", 2, of=2, shards=(1, 2, 1, 2, 1))
        reasons = self.reasons([shards[0], other], out, SPLIT)
        assert reasons[:2] == ["1/3 agrees with no other shard", "2/2 agrees with no other shard"]

    @pytest.mark.parametrize(
        ("name", "value", "shown"),
        [
            ("manifest", "f" * 64, f"manifest: expected {'0' * 64}, found {'f' * 64}"),
            ("aotbuild", "0.2.0", "aotbuild: expected 0.1.0, found 0.2.0"),
            ("package", "other", "package: expected pack, found other"),
            (
                "toolchains",
                (("0.11", "0.11", "jax 0.11"),),
                f"toolchains: expected {FACTS.toolchains[0][2]}, found jax 0.11",
            ),
        ],
    )
    def test_another_plan(
        self, shards: list[Path], out: Path, tmp_path: Path, name: str, value: Any, shown: str
    ) -> None:
        other = put(tmp_path / "other", 2, facts=replace(FACTS, **{name: value}))
        assert self.reasons([shards[0], other, shards[2]], out, PLAN) == [
            f"{other}, shard 2/3 is of another plan than {shards[0]}, shard 1/3:\n  {shown}"
        ]

    def test_other_units(self, shards: list[Path], out: Path, tmp_path: Path) -> None:
        labels = (*LABELS[:-1], "g for tpu:v5e:2x2:1")
        other = put(tmp_path / "other", 3, labels=labels)
        (reason,) = self.reasons([*shards[:2], other], out, PLAN)
        assert reason.splitlines()[1:] == [
            f"  without {label(4)}",
            "  only there: g for tpu:v5e:2x2:1",
        ]

    def test_other_sources(self, shards: list[Path], out: Path, tmp_path: Path) -> None:
        sources = replace(SOURCES, files={"pack/m.py": "2" * 64, "pack/more.py": "3" * 64})
        other = put(tmp_path / "other", 3, sources=sources)
        assert self.reasons([*shards[:2], other], out, PLAN) == [
            f"{other}, shard 3/3: pack/m.py is not the one of {shards[0]}, shard 1/3"
        ]

    def test_files_that_not_the_first_shard_used(
        self, shards: list[Path], out: Path, tmp_path: Path
    ) -> None:
        parts = [
            put(
                tmp_path / f"other {number}",
                number,
                sources=replace(SOURCES, files={"pack/late.py": digit * 64}),
                data_files={"pack/settings.json": found, "only.txt": "5" * 64},
            )
            for number, digit, found in ((2, "2", "missing"), (3, "3", "4" * 64))
        ]
        assert self.reasons([shards[0], *parts], out, PLAN) == [
            f"{parts[1]}, shard 3/3: {name} is not the one of {parts[0]}, shard 2/3"
            for name in ("pack/late.py", "pack/settings.json")
        ]

    def test_a_whole_package(self, shards: list[Path], out: Path, tmp_path: Path) -> None:
        whole(tmp_path / "whole", [result(number) for number in range(COUNT)])
        folder = tmp_path / "whole" / "_aot"
        error = self.refused([shards[0], folder], out)
        assert (error.problem, error.reasons) == ("not a shard", ("it is a whole package",))
        assert str(error).startswith(f"{folder}: ")

    @pytest.mark.parametrize("damage", ["changed", "cut", "gone", "json", "format"])
    def test_results_are_damaged(self, shards: list[Path], out: Path, damage: str) -> None:
        file = shards[1] / "shard"
        raw = file.read_bytes()
        match damage:
            case "changed":
                file.write_bytes(raw.replace(b"trace", b"Trace").replace(b"0.10.2", b"0.10.3"))
            case "cut":
                file.write_bytes(raw[:-20])
            case "gone":
                file.unlink()
            case "json":
                file.write_bytes(b"{}\n")
            case "format":
                file.write_bytes(raw.replace(b'"format":1', b'"format":2'))
        error = self.refused(shards, out)
        assert (error.problem, error.remedy) == ("its results cannot be read", AGAIN)
        assert str(error).startswith(f"{shards[1]}: ")

    def test_a_header_is_damaged(self, shards: list[Path], out: Path) -> None:
        index = open_index(DirectorySource(shards[1]))
        rewrite(shards[1], index, {"shard": {**index.header["shard"], "number": 0}})
        error = self.refused(shards, out)
        assert error.reasons[0].startswith("header: shard: expected a number, and digests, found")

    def test_a_blob_is_damaged(self, shards: list[Path], out: Path) -> None:
        (blob, _) = sorted((shards[1] / "blobs").iterdir())
        blob.write_bytes(b"?" * blob.stat().st_size)
        with pytest.raises(DamagedBlob, match=blob.name):
            merge_folders(shards, out)
        assert not out.exists()

    def test_a_blob_is_missing(self, shards: list[Path], out: Path) -> None:
        next((shards[1] / "blobs").iterdir()).unlink()
        with pytest.raises(DamagedBlob):
            merge_folders(shards, out)
        assert not out.exists()

    def test_one_shard_would_leave_units_out(self, out: Path, tmp_path: Path) -> None:
        parts = [put(tmp_path / f"{n}", n) for n in (1, 3)]
        parts.append(put(tmp_path / "2", 2, keep_going=True, results=[failed(1), result(4)]))
        with pytest.raises(BuildError) as caught:
            merge_folders(parts, out)
        assert [failure.unit for failure in caught.value.failures] == [label(1)]

    def test_the_folder_is_another(self, shards: list[Path], tmp_path: Path) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "letter.txt").touch()
        ended = run("merge", *shards, "--out", tmp_path / "mine", code=2)
        assert "would be replaced, but it is not an _aot folder" in ended.stderr

    def test_the_folder_is_one_of_them(self, shards: list[Path]) -> None:
        ended = run("merge", *shards, "--out", shards[0], code=2)
        assert "is one of the shards, which stay as they are" in ended.stderr

    def test_the_folder_that_is_below_another(
        self, shards: list[Path], out: Path, tmp_path: Path
    ) -> None:
        parents = [tmp_path / f"machine{number}" for number in range(len(shards))]
        for parent, shard in zip(parents, shards, strict=True):
            shutil.copytree(shard, parent / "proj" / "_aot")
        run("merge", *parents, "--out", out)
        assert (out / "index").exists()
        shutil.copytree(shards[0], parents[0] / "other" / "_aot")
        ended = run("merge", *parents, "--out", out, code=2)
        found = f"{parents[0]}/other/_aot, {parents[0]}/proj/_aot"
        assert f"{parents[0]}: expected one _aot folder below it, found {found}" in ended.stderr
        (tmp_path / "empty").mkdir()
        ended = run("merge", tmp_path / "empty", "--out", out, code=2)
        assert "there are neither wheels in it nor an _aot folder below it" in ended.stderr

    def test_with_something_else(self, shards: list[Path], out: Path, tmp_path: Path) -> None:
        wheel = tmp_path / "a.whl"
        wheel.touch()
        for more in ([wheel], ["--fallback", "jit"]):
            ended = run("merge", *shards, *more, "--out", out, code=2)
            assert "is an _aot folder, which does not go together with" in ended.stderr


def rewrite(folder: Path, index: Index, changes: dict[str, Any]) -> None:
    functions = list(index.functions())
    records = [record for f in functions for record in index.records(f.name)]
    (folder / "index").write_bytes(write_index({**index.header, **changes}, functions, records))


class TestOtherPrograms:
    """Two shards that built targets of one signature, and what each of them traced."""

    V3, V4 = "cpu:x86-64-v3:1", "cpu:x86-64-v4:1"

    def merged(self, tmp_path: Path, out: Path, *made: tuple[str, str, list[float] | None]) -> Path:
        """Merge shards with one unit each: its target, its trace, and its golden outputs."""
        labels = tuple(f"f(batch=1) for {target}" for target, _, _ in made)
        parts = []
        for number, (target, trace, outputs) in enumerate(made):
            record = make_record(
                "f", 1, target, data=data(number), provenance={"trace": TRACES[trace]}
            )
            samples = [] if outputs is None else [golden_outputs(outputs)]
            for content in samples:
                blob = make_blob(content, "safetensors")
                record = replace(record, golden=Golden((), blob))
            unit = Planned(number, "f", labels[number], "batch", target, 0, "0.10.2")
            results = [Result(unit, make_function("f"), record)]
            folder = tmp_path / str(number)
            parts.append(
                put(folder, number + 1, shards=(1, 2), of=2, labels=labels, results=results)
            )
            for content in samples:
                blob = make_blob(content, "safetensors")
                (parts[-1] / blob.path).write_bytes(content)
        return merge_folders(parts, out).folder

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (("one", None), ("one", None)),
            (("one", [1.0, 2.0]), ("rounded", [1.0, 2.0 + 2e-7])),
            (("one", [1.0, 2.0]), ("other constants", [1.0, 2.0])),
            (("one", None), ("other operations", None)),
        ],
    )
    def test_they_may_be_together(
        self, first: tuple[str, Any], second: tuple[str, Any], out: Path, tmp_path: Path
    ) -> None:
        assert self.merged(tmp_path, out, (self.V3, *first), (self.V4, *second)) == out

    @pytest.mark.parametrize("trace", ["other constants", "other operations"])
    def test_other_results(self, trace: str, out: Path, tmp_path: Path) -> None:
        with pytest.raises(WheelRefused) as caught:
            self.merged(
                *(tmp_path, out, (self.V3, "one", [1.0, 2.0]), (self.V4, trace, [1.0, 2.1]))
            )
        (reason,) = caught.value.reasons
        assert reason.startswith(f"f(batch=1) {self.V3} in {tmp_path}/0/_aot, shard 1/2 and ")
        assert "were traced to different programs, whose golden outputs differ" in reason
        assert not out.exists()

    def test_nobody_can_tell(self, out: Path, tmp_path: Path) -> None:
        with pytest.raises(WheelRefused, match="different constants, and without golden outputs"):
            self.merged(
                *(tmp_path, out, (self.V3, "one", None), (self.V4, "other constants", [1.0, 2.0]))
            )


TRACES = {
    "one": {"constants": "1" * 64, "operations": "1" * 64},
    "rounded": {"constants": "2" * 64, "operations": "2" * 64},
    "other constants": {"constants": "3" * 64, "operations": "3" * 64},
    "other operations": {"constants": "1" * 64, "operations": "3" * 64},
}


def golden_outputs(values: list[float]) -> bytes:
    array = np.asarray(values, np.float32)
    return write_tensors({"0": ("f4", array.shape, array.tobytes())})
