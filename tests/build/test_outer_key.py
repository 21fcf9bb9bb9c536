"""What is known of a job before anything is read: no fact of an executable's key is missing."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from support.direct import Place, manifest
from support.projects import write_project

from aotbuild.build.attempt import Outcome, Request, Tell
from aotbuild.build.direct.outer import machine_facts, outer_key
from aotbuild.build.direct.world import Python
from aotbuild.build.executors import driver
from aotbuild.build.jobs import make_jobs
from aotbuild.build.plan import make_plan
from aotbuild.build.pool import WorkerPool
from aotbuild.build.replies import Compiled, Reply
from aotbuild.build.requests import Hello
from aotbuild.build.sources import SourceTree
from aotbuild.format.encodings import encodings
from aotbuild.format.target import HOST, Target
from aotbuild.manifest import load_manifest
from aotbuild.platforms.base import names
from aotbuild.platforms.building import Hardware, compiler, description
from aotbuild.store.file_digests import FileDigests
from aotbuild.store.keys import executable_keys
from aotbuild.toolchains.toolchain import probe

pytestmark = pytest.mark.any_jax

TARGETS = "targets: [{cpu: {isa: [x86-64-v3]}}]\n"


class Digests(FileDigests):
    """Digests of which each is another than that of the file."""

    def of(self, path: str, *, since: int | None = None) -> str:
        return f"{super().of(path, since=since)}?"


class Outer:
    """A job, and what its outer key is made from."""

    def __init__(self, folder: Path) -> None:
        write_project(folder, manifest(["f"]) + TARGETS, f="def f(x): return x")
        plan = make_plan(load_manifest(folder / "aot.yaml"), probe())
        ((self.settings, self.job, _),) = make_jobs(plan.units)
        self.hello = Hello(blobs=folder)
        self.sources = SourceTree(folder, folder, "proj")
        self.digests = FileDigests(None)

    def key(self) -> str:
        request = Request(self.settings, self.job, 1.0, 1.0)
        python = Python(sys.version, (), (), encodings())
        return outer_key(request, self.hello, self.sources, python, self.digests)

    def function(self, **update: Any) -> None:
        self.job = self.job.model_copy(
            update={"function": self.job.function.model_copy(update=update)}
        )

    def set(self, **update: Any) -> None:
        self.settings = replace(self.settings, **update)

    def toolchain(self, **update: Any) -> None:
        self.set(toolchain=replace(self.settings.toolchain, **update))


def of_other_code(outer: Outer) -> None:
    outer.digests = Digests(None)


def of_other_hardware(outer: Outer) -> None:
    hardware = (Hardware(description=(("cpus", 3),)),)
    outer.job = outer.job.model_copy(update={"hardware": hardware})


def of_other_target(outer: Outer) -> None:
    targets = (Target(HOST, "x86-64-v4", 1),)
    outer.job = outer.job.model_copy(update={"targets": targets})


# For each fact in the key of an executable, what makes it another one; None: it follows from what
# the trace read, which direct mode records.
FACTS: dict[str, Callable[[Outer], object] | None] = {
    "target": of_other_target,
    "hardware": of_other_hardware,
    "machine": lambda o: o.toolchain(jaxlib="0.0.1"),  # and the test below
    "startup": lambda o: o.function(startup="fast"),
    "thunk_rewrite": lambda o: setattr(o, "job", o.job.with_options(shrink=False)),
    "stablehlo": None,
    "aotbuild": of_other_code,
    "jax": lambda o: o.toolchain(jax="0.0.1"),
    "jaxlib": lambda o: o.toolchain(jaxlib="0.0.1"),
    "xla_flags": lambda o: o.set(devices=2),
    "compiler_options": lambda o: o.function(compiler_options={"xla_embed_ir_in_executable": True}),
    "config": lambda o: o.set(config=(("jax_enable_x64", True),)),
    "compilers": lambda o: o.toolchain(plugins=(("nvidia-cudnn-cu13", "9.0.0"),)),
}


class Asked(dict[str, Any]):
    """A provenance that knows what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return ""

    def get(self, name: str, _: Any = None) -> Any:
        return self[name]


def test_every_fact_is_here() -> None:
    """A fact that is new in the key of an executable fails here until direct mode has it, too."""
    provenance = Asked()
    given = dict.fromkeys({*inspect.signature(executable_keys).parameters} - {"provenance"})
    executable_keys(**given, provenance=provenance)  # type: ignore[arg-type]
    assert given.keys() | provenance.names == FACTS.keys()


@pytest.mark.parametrize("fact", [name for name, change in FACTS.items() if change])
def test_another_fact_is_another_key(tmp_path: Path, fact: str) -> None:
    outer, change = Outer(tmp_path), FACTS[fact]
    before = outer.key()
    assert outer.key() == before
    assert change is not None
    change(outer)
    assert outer.key() != before


@pytest.mark.parametrize("platform", names("compile"))
def test_what_compilers_say_is_known_before(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of compilers are those of the toolchain, facts of the machine are those here."""
    monkeypatch.setattr(metadata, "version", lambda name: f"version of {name}")
    hardware, toolchain = Hardware(), probe().toolchains[0]
    there, here = compiler(platform), description(platform)
    assert {*there.provenance(hardware).get("compilers", {})} <= {*here.plugins}
    known = here.known_provenance(toolchain, fix_hashes=False)
    facts = [*known.values(), *here.deciding_facts(hardware), *machine_facts()]
    assert [fact for fact in there.deciding_facts(hardware) if fact not in facts] == []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path, monkeypatch)
    write_project(place.root, manifest(["one"]), one="def f(x): return x")
    return place


def hashes(place: Place) -> Any:
    return place.build()[1].records[0].provenance["hashes"]


@pytest.mark.process
def test_another_order_of_hash_tables(place: Place) -> None:
    first = hashes(place)
    place.patch.setenv("AOTBUILD_FIX_HASHES", "off")
    assert place.traced() == ({"one"} if first == "fixed" else set())
    assert hashes(place) == "of the process"
    place.patch.delenv("AOTBUILD_FIX_HASHES")
    assert place.traced() == set()
    assert hashes(place) == first


@pytest.mark.process
def test_an_order_that_nobody_expected_is_not_kept(place: Place) -> None:
    """Whether the order was asked for does not count, but whether the process got it."""
    attempt = driver.run_attempt

    def other(pool: WorkerPool, request: Request, tell: Tell) -> Outcome:
        def say(message: Reply, at: float | None = None, /) -> None:
            if isinstance(message, Compiled):
                provenance = {**message.record.provenance, "hashes": "another"}
                record = replace(message.record, provenance=provenance)
                message = message.model_copy(update={"record": record})
            tell(message, at)

        return attempt(pool, request, say)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "run_attempt", other)
        assert [place.traced() for _ in range(2)] == [{"one"}, {"one"}]
    assert [place.traced() for _ in range(2)] == [{"one"}, set()]
