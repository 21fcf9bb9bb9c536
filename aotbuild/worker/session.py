"""Run the job of a process: one trace, then every target that is made from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import jax
from jaxlib.version import __version__ as jaxlib_version

from aotbuild.build.jobs import Job
from aotbuild.build.protocol import Compiled, Done, Failed, Hello, Reply, Stage, Started
from aotbuild.errors import AotbuildError
from aotbuild.format.canonical import canonical_digest, canonical_json
from aotbuild.format.record import Blob
from aotbuild.format.target import HOST, Target
from aotbuild.platforms.building import Hardware, compiler, description
from aotbuild.store.folder import Store
from aotbuild.worker.analysis import CustomCalls
from aotbuild.worker.blobs import BlobFolder, SecretPaths
from aotbuild.worker.compile import Made, NativeCompiler, decision_notes
from aotbuild.worker.function import import_named
from aotbuild.worker.golden_outputs import GoldenMaker
from aotbuild.worker.imports import (
    Imports,
    apply_config,
    import_own_sources,
    new_modules,
    unchanged_config,
)
from aotbuild.worker.jaxprs import meshes
from aotbuild.worker.lower import Lowered, export_portable, lower, symbolic_dims
from aotbuild.worker.padding_axes import with_padding
from aotbuild.worker.padding_check import PaddingCheck
from aotbuild.worker.purity import SecondFork, begin_check
from aotbuild.worker.thunk_rewrite.rewrite import LOADED, Candidate
from aotbuild.worker.trace import Traced, trace_job
from aotbuild.worker.user_errors import user_traceback

# What user code may raise. Not GeneratorExit, which ends the generators here.
_ANY = (Exception, SystemExit, KeyboardInterrupt)


def prepare() -> None:
    """Do what all jobs of a process would do first, so that its forks need not."""
    import_own_sources()
    compiler(HOST).start()


class Session:
    """What a process has for its job, set up before any of the user's code runs."""

    def __init__(
        self, hello: Hello, fetch: Callable[[str], bool], second: SecondFork | None = None
    ) -> None:
        self._second = second
        self._lowered: dict[str, Lowered] = {}
        self._blobs = BlobFolder(hello.blobs)
        # XLA has read the variable; the user's code may change it later.
        versions = {"jax": jax.__version__, "jaxlib": jaxlib_version}
        flags = os.environ.get("XLA_FLAGS", "")
        self._provenance = {**hello.provenance, **versions, "xla_flags": flags}
        self._secret_paths = SecretPaths.of_this_machine(hello.secret_paths)
        entries = Store(hello.store, fetch) if hello.behind else Store(hello.store)
        self._entries = entries
        self._native = NativeCompiler(self._blobs, CustomCalls(), entries)
        self._golden = GoldenMaker(self._blobs, entries, self._provenance)
        self._padding = PaddingCheck(entries, self._provenance)
        self._imports = Imports(dict(hello.config))
        self._refused: BaseException | None = None
        try:
            _start_jax(hello.config)
        except _ANY as err:  # reported with the job, under the unit's name
            self._refused = err

    def run(self, job: Job) -> Iterator[Reply]:
        """Yield the messages of the job; a unit that fails does not stop the others."""
        fed = None
        try:
            if modules := new_modules(job.function.references):
                yield Started(doing=f"importing {', '.join(modules)}")
            self.import_modules(job)
            yield Started(doing=f"tracing {job.label}")
            traced = self.trace(job)
        except _ANY as err:  # everything is reported, under the unit's name
            for target in job.targets:
                yield _failure(target, "trace", err)
        else:
            fed = traced.fed
            yield from self._compile_and_check(traced)
        entries = self._entries
        yield Done(
            fed=fed,
            made=tuple(sorted(entries.made)),
            used=tuple(sorted(entries.used - entries.made)),
            blobs=dict(self._blobs.stored),
            problems=dict(entries.problems),
        )

    def _compile_and_check(self, traced: Traced) -> Iterator[Reply]:
        candidates: list[tuple[Candidate, Compiled]] = []
        for target, hardware in zip(traced.job.targets, traced.job.hardware, strict=True):
            # Before it is lowered, which may end this process.
            yield Started(stage="compile", target=str(target))
            if self._second is None or target != traced.job.targets[0]:
                yield self._unit(traced, target, hardware, candidates)
                continue
            try:
                compare = begin_check(traced, self._second, self._lower)
                unit = self._unit(traced, target, hardware, candidates)
                notes = tuple(compare())
            except _ANY as err:
                for each in traced.job.targets:
                    yield _failure(each, "trace", err)
                return
            traced = replace(traced, notes=(*traced.notes, *notes))
            if isinstance(unit, Compiled):
                unit = unit.model_copy(update={"notes": (*notes, *unit.notes)})
                candidates = [(candidate, unit) for candidate, _ in candidates]
            yield unit
        # Last: they call the function, and if that ends this process, the executables are made.
        yield from self._padding.messages(traced)
        yield from self._golden.messages(traced, candidates)

    def import_modules(self, job: Job) -> None:
        """Import what a job names, and adopt the settings of jax that this changes."""
        if self._refused:
            raise self._refused
        self._imports.adopt(job.function.references, f"functions.{job.name}")
        for module in job.function.imports:
            import_named(module, module, f"functions.{job.name}.imports")

    def trace(self, job: Job) -> Traced:
        """Trace a job whose modules are imported; TraceRefused says why it cannot be compiled."""
        with unchanged_config(f"functions.{job.name}: {job.call}"):
            traced = trace_job(job, symbolic_dims(job) if job.symbolic else None)
            traced = with_padding(traced)
        notes = [*self._imports.notes(), *traced.notes]
        if not job.function.mesh and any(meshes(traced.closed_jaxpr)):
            notes.append(
                f"{job.call} computes over a mesh that it has made, and its entry has no mesh: it "
                f"is compiled for {jax.device_count()} device"
            )
        return replace(traced, notes=tuple(notes))

    def _unit(
        self,
        traced: Traced,
        target: Target,
        hardware: Hardware,
        candidates: list[tuple[Candidate, Compiled]],
    ) -> Compiled | Failed:
        """Compile for a target; a rewritten executable to compare is added to `candidates`."""
        try:
            made = self._compile(traced, target, hardware)
            record, there = made.record, compiler(target.platform)
            message = Compiled(
                target=str(target),
                function=traced.function,
                record=record,
                notes=(*traced.notes, *there.notes(record), *decision_notes(record)),
                stored=made.stored,
                plain=self._plain(made.candidate),
            )
            data = there.searchable(self._blobs.read(record.blob))
            self._secret_paths.refuse_in("the compiled bytes", data)
            # Notes are for the user of this machine, and name its files.
            packed = message.model_dump(mode="json", exclude={"notes"})
            self._secret_paths.refuse_in("the index", canonical_json(packed))
        except _ANY as err:  # everything is reported, under the unit's name
            return _failure(target, "compile", err)
        if made.candidate is not None and message.plain is not None:
            candidates.append((made.candidate, message))
        return message

    def _lower(self, traced: Traced, target: Target, hardware: Hardware) -> Lowered:
        """Lower for a target, once: the check of purity and the compiler ask for the same."""
        if str(target) not in self._lowered:
            self._lowered[str(target)] = lower(traced, target, hardware)
        return self._lowered[str(target)]

    def _plain(self, candidate: Candidate | None) -> Blob | None:
        """Return the plain executable of a candidate, which then will be compared with it."""
        if candidate is None:
            return None
        if self._secret_paths.are_in(candidate.plain):
            # It could not take the place of the rewritten one, where the path is gone.
            candidate.keep(LOADED)
            return None
        return self._blobs.add("pjrt", candidate.plain)

    def _compile(self, traced: Traced, target: Target, hardware: Hardware) -> Made:
        provenance = {
            **self._provenance,
            "label": traced.job.label,
            **({"dims": dims} if (dims := traced.job.symbolic or traced.job.dims) else {}),
            "config": self._imports.traced_with(),
            # The values of variables may be secret.
            **({"env": canonical_digest(env)} if (env := dict(traced.job.function.env)) else {}),
            "compiler_options": traced.job.function.compiler_options,
        }
        if target.is_portable:
            return Made(export_portable(traced, target, self._blobs, provenance))
        lowered = self._lower(traced, target, hardware)
        del self._lowered[str(target)]  # modules with large constants are large
        return self._native.compile(lowered, provenance)


def second_fork(hello: Hello, job: Job) -> SecondFork:
    """Return a fork that traces a job with other clocks and random numbers.

    Call it before anything of the job is done here.
    """

    def prepare() -> Callable[[], Traced]:
        session = Session(hello.model_copy(update={"store": None, "behind": False}), _never)
        session.import_modules(job)
        return lambda: session.trace(job)

    return SecondFork(prepare)


def _never(_: str) -> bool:
    return False


def _start_jax(config: Iterable[tuple[str, Any]]) -> None:
    apply_config(config)
    # Locations would put the paths of this machine into the bytes.
    jax.config.update("jax_traceback_in_locations_limit", 0)
    # std::bad_cast is what MLIR says of paths that are no text, as with ü where LC_ALL=C.
    jax.config.update("jax_hlo_source_file_canonicalization_regex", "[\ud800-\udfff]")
    # XLA reads its flags once: now, before the user's code can set others.
    jax.devices()


def _failure(target: Target, stage: Stage, error: BaseException) -> Failed:
    text = str(error) if isinstance(error, AotbuildError) else user_traceback(error)
    text += description(target.platform).hint(text)
    return Failed(target=str(target), stage=stage, error=text)
