"""Who builds what: shares of a plan, alike on all machines, balanced by the times they share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.projects import MANIFEST, build, write_project

from aotbuild.build.jobs import make_jobs
from aotbuild.build.plan import Plan, make_plan
from aotbuild.build.schedule import Task
from aotbuild.build.shares import Share, balance, make_share, split
from aotbuild.build.sources import SourceTree, find_sources
from aotbuild.errors import BuildError
from aotbuild.format.shard import Shard
from aotbuild.manifest import load_manifest, parse_manifest
from aotbuild.store.layers import open_store
from aotbuild.store.times import Times
from aotbuild.toolchains.toolchain import probe

TEXT = """
version: 1
package: proj
targets: [cpu, portable]
functions:
  f: {call: "proj.m:f", args: [x: "f32[n]"], dims: {n: [1, 2, 3, 4]}, verify: {golden: never}}
"""


def tasks_of(plan: Plan) -> list[Task]:
    return [Task(*job) for job in make_jobs(plan.units)]


class TestBalance:
    def test_equal_loads_go_round(self) -> None:
        assert balance([1.0] * 7, 3) == [1, 2, 3, 1, 2, 3, 1]

    def test_the_largest_comes_first(self) -> None:
        assert balance([1.0, 1.0, 1.0, 3.0], 2) == [2, 2, 2, 1]

    def test_more_shares_than_loads(self) -> None:
        assert balance([1.0, 2.0], 4) == [2, 1]
        assert balance([], 4) == []

    def test_no_share_is_far_above_the_mean(self) -> None:
        loads = [float(place * 7 % 11) for place in range(100)]
        numbers = balance(loads, 8)
        totals = [
            sum(load for load, number in zip(loads, numbers, strict=True) if number == share)
            for share in range(1, 9)
        ]
        assert max(totals) <= sum(loads) / 8 + max(loads)


class TestSplit:
    plan = make_plan(parse_manifest(TEXT), probe())

    def test_targets_of_one_trace_stay_together(self) -> None:
        tasks = tasks_of(self.plan)
        assert split(self.plan, tasks, [None] * 4, 3) == [1, 1, 2, 2, 3, 3, 1, 1]

    def test_the_longest_is_alone(self) -> None:
        numbers = split(self.plan, tasks_of(self.plan), [1.0, 1.0, 9.0, 1.0], 2)
        assert numbers == [2, 2, 2, 2, 1, 1, 2, 2]

    def test_what_has_no_time_counts_as_the_mean(self) -> None:
        numbers = split(self.plan, tasks_of(self.plan), [2.0, None, 4.0, None], 2)
        assert numbers == [1, 1, 2, 2, 1, 1, 2, 2]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", TEXT, m="def f(x):\n    return x * 2\n")


class Machine:
    """One of several, with the same project; `stores` are its layers."""

    def __init__(self, project: Path, *stores: Path | str) -> None:
        self.plan = make_plan(load_manifest(project / MANIFEST), probe())
        self.sources: SourceTree = find_sources(project, "proj")
        self.environment = {"AOTBUILD_STORE": ",".join(map(str, stores)) or "off"}

    def numbers(self, shard: str) -> tuple[int, ...]:
        share = make_share(self.plan, self.sources, Shard.parse(shard), self.environment)
        part = share.part_of(self.plan)
        own = [number == share.shard.number for number in share.numbers]
        units = [unit for unit, mine in zip(self.plan.units, own, strict=True) if mine]
        assert list(part.units) == units
        return share.numbers

    def learn(self, *seconds: float) -> None:
        """Have what the store knows after a build that took so long for each signature."""
        keys = [task.key for task in tasks_of(self.plan)]
        with open_store(self.environment) as layers:
            Times(layers).keep(dict(zip(keys, seconds, strict=True)))
            layers.push()


def test_more_shards_than_units_are_noted() -> None:
    assert [*Share(Shard(1, 3), (1, 1, 2)).notes] == []
    (note,) = Share(Shard(7, 9), (1, 1, 2)).notes
    assert note == "there are more shards than units: only 2 of 9 have any"


COUNTED = (1, 1, 2, 2, 1, 1, 2, 2)
BALANCED = (2, 2, 2, 2, 1, 1, 2, 2)


class TestMachines:
    def test_without_a_store_units_are_counted(self, project: Path) -> None:
        assert Machine(project).numbers("1/2") == Machine(project).numbers("2/2") == COUNTED

    def test_times_balance(self, project: Path, tmp_path: Path) -> None:
        shared = tmp_path / "shared"
        Machine(project, shared).learn(1, 1, 9, 1)
        one, two = (Machine(project, tmp_path / name, shared) for name in "ab")
        assert one.numbers("1/2") == two.numbers("2/2") == BALANCED

    def test_the_first_shard_decides(self, project: Path, tmp_path: Path) -> None:
        """The times that it adds while others wait do not change their shares."""
        shared = tmp_path / "shared"
        assert Machine(project, tmp_path / "a", shared).numbers("1/2") == COUNTED
        Machine(project, tmp_path / "a", shared).learn(1, 1, 9, 1)
        late = Machine(project, tmp_path / "b", shared)
        assert late.numbers("2/2") == late.numbers("1/2") == COUNTED
        # Another number of shards, and other sources, are another build.
        assert late.numbers("1/1") == (1,) * 8
        (project / "proj" / "m.py").write_text("def f(x):\n    return x * 3\n")
        assert late.numbers("2/2") == BALANCED

    def test_times_of_one_machine_alone_do_not_count(self, project: Path, tmp_path: Path) -> None:
        Machine(project, tmp_path / "a").learn(1, 1, 9, 1)
        shared = tmp_path / "shared"
        assert Machine(project, tmp_path / "a", shared).numbers("1/2") == COUNTED

    def test_what_is_no_module_is_not_read(self, project: Path, tmp_path: Path) -> None:
        """A lock of Emacs is a link that leads nowhere; templates and pipes have such names."""
        (project / "proj" / ".#m.py").symlink_to("user@host.123:456")
        (project / "proj" / "setup.py").mkdir()
        os.mkfifo(project / "proj" / "pipe.py")
        assert Machine(project, tmp_path / "shared").numbers("1/2") == COUNTED

    def test_switched_off(self, project: Path, tmp_path: Path) -> None:
        machine = Machine(project, tmp_path / "a")
        machine.learn(1, 1, 9, 1)
        machine.environment["AOTBUILD_TIMES"] = "off"
        assert machine.numbers("1/2") == COUNTED

    def test_a_split_that_does_not_fit_is_made_again(self, project: Path, tmp_path: Path) -> None:
        keep = Times.keep_split
        for wrong in ([1, 2], [3] * 8):
            machine = Machine(project, tmp_path / str(len(wrong)))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Times, "keep_split", lambda *args, w=wrong: keep(*args[:2], w))
                assert machine.numbers("1/2") == COUNTED
            assert machine.numbers("1/2") == machine.numbers("2/2") == COUNTED


@pytest.mark.process
@pytest.mark.any_jax
class TestRecorded:
    """What a build writes into the store, and what it does not."""

    @pytest.fixture(autouse=True)
    def _store(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
        monkeypatch.setenv("AOTBUILD_TIMES", "on")
        self.store, self.patch = tmp_path / "store", monkeypatch

    def known(self, project: Path) -> list[float | None]:
        keys = [task.key for task in tasks_of(Machine(project).plan)]
        found = Times(open_store({"AOTBUILD_STORE": str(self.store)})).here(keys)
        return [found.get(key) for key in keys]

    def test_the_time_of_each_signature(self, project: Path) -> None:
        build(project)
        seconds = self.known(project)
        assert all(each and each > 0 for each in seconds)

    def test_hits_are_no_times(self, project: Path) -> None:
        (project / MANIFEST).write_text(TEXT.replace("[cpu, portable]", "[cpu]"))
        self.patch.setenv("AOTBUILD_TIMES", "off")
        build(project)
        self.patch.setenv("AOTBUILD_TIMES", "on")
        build(project)
        assert self.known(project) == [None] * 4
        # Nor is a job of which only a part had to be compiled.
        (project / MANIFEST).write_text(TEXT)
        build(project)
        assert self.known(project) == [None] * 4

    def test_failures_have_no_time(self, project: Path) -> None:
        (project / "proj" / "m.py").write_text("def f(x):\n    return x.no\n")
        with pytest.raises(BuildError):
            build(project)
        assert self.known(project) == [None] * 4
