"""Shares of a plan: which shard builds which units, computed alike on every machine.

Shares are balanced by the times that the farthest layer of the store knows, which all machines
share. Times that a shard adds while another one is still to start would change its share, so the
first shard writes down the split, and later ones of the same plan and sources take that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace

from aotbuild.build.assemble import Assembled
from aotbuild.build.jobs import make_jobs
from aotbuild.build.left_out import without_folders
from aotbuild.build.plan import Plan
from aotbuild.build.results import ShardFile
from aotbuild.build.schedule import Task
from aotbuild.build.sources import SourceTree
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.layout import HEADER_KEY
from aotbuild.format.shard import Shard, ShardHeader
from aotbuild.format.sources import file_digest
from aotbuild.store.layers import open_store
from aotbuild.store.times import times_of


@dataclass(frozen=True)
class Share:
    """What one shard builds; `numbers` has the number of the shard of each unit of the plan."""

    shard: Shard
    numbers: tuple[int, ...]

    def part_of(self, plan: Plan) -> Plan:
        """Return the plan with the units of this shard alone."""
        pairs = zip(self.numbers, plan.units, strict=True)
        units = tuple(unit for number, unit in pairs if number == self.shard.number)
        toolchains = {unit.toolchain for unit in units}
        kept = tuple(each for each in plan.environment.toolchains if each in toolchains)
        return replace(plan, units=units, environment=replace(plan.environment, toolchains=kept))

    def labels(self, plan: Plan, secrets: Collection[str]) -> tuple[str, ...]:
        """Return the labels of all units of a plan, without paths of this machine."""
        return tuple(without_folders(str(unit), secrets) for unit in plan.units)

    @property
    def notes(self) -> Iterator[str]:
        """Notes for whoever builds a shard of more than there are units."""
        of, units, used = self.shard.of, len(self.numbers), len(set(self.numbers))
        if of > units:
            yield f"there are more shards than units: only {used} of {of} have any"

    def mark(self, made: Assembled, file: ShardFile) -> Assembled:
        """Return the contents of this shard's index, whose header says which shard it is."""
        header = ShardHeader(self.shard, file.plan, file.split, sha256_hex(file.to_bytes()))
        # Stages of units that another shard may replace are kept, too.
        kept = any(result.record and result.record.stages for result in file.results)
        stages = {HEADER_KEY: file.facts.stages} if kept else {}
        return replace(made, header={**made.header, **stages, **header.to_header()})


def make_share(
    plan: Plan, sources: SourceTree, shard: Shard, environment: Mapping[str, str]
) -> Share:
    """Return the share of a shard, as every shard of this build computes it."""
    with open_store(environment) as layers:
        times = times_of(layers, environment)
        inputs = {
            "plan": [plan.manifest.digest, list(map(str, plan.units))],
            "of": shard.of,
            "sources": _digests(sources),
        }
        numbers = times.split_of(inputs, len(plan.units), shard.of)
        if numbers is None:
            tasks = [Task(*job) for job in make_jobs(plan.units)]
            keys = [task.key for task in tasks]
            known = times.shared(keys)
            numbers = split(plan, tasks, [known.get(key) for key in keys], shard.of)
            times.keep_split(inputs, numbers)
    return Share(shard, tuple(numbers))


def _digests(sources: SourceTree) -> list[list[str]]:
    """Return the names and digests of the package's modules."""
    place = sources.import_root.joinpath(*sources.package.split("."))
    # Folders, pipes and links that lead nowhere, such as locks of editors, are no modules.
    files = sorted(file for file in place.rglob("*.py") if file.is_file())
    return [[file.relative_to(place).as_posix(), file_digest(file)] for file in files]


def split(
    plan: Plan, tasks: Sequence[Task], seconds: Sequence[float | None], count: int
) -> list[int]:
    """Return the number of the shard of each unit. What is traced together stays together.

    A unit whose time is not known counts as the mean of the others.
    """
    pairs = [(time, task) for time, task in zip(seconds, tasks, strict=True) if time is not None]
    units = sum(len(task.units) for _, task in pairs)
    usual = sum(time for time, _ in pairs) / units if units else 1.0
    loads = [
        usual * len(task.units) if time is None else time
        for time, task in zip(seconds, tasks, strict=True)
    ]
    numbers = {
        id(unit): number
        for task, number in zip(tasks, balance(loads, count), strict=True)
        for unit in task.units
    }
    return [numbers[id(unit)] for unit in plan.units]


def balance(loads: Sequence[float], count: int) -> list[int]:
    """Return which of `count` shares gets each load: the largest first, each to the least loaded.

    Shares are counted from 1.
    """
    shares = [(0.0, number) for number in range(1, count + 1)]
    heapify(shares)
    chosen = [0] * len(loads)
    for place in sorted(range(len(loads)), key=lambda place: -loads[place]):
        total, number = shares[0]
        chosen[place] = number
        heapreplace(shares, (total + loads[place], number))
    return chosen
