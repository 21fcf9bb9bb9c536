"""Look a job up before it is given to a worker, and keep what a worker made of it."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from subprocess import SubprocessError

from aotbuild.build.attempt import Outcome, Request, Tell
from aotbuild.build.direct.entries import Candidate, DirectEntries, Names, Result
from aotbuild.build.direct.outer import is_as_known, machine_facts, outer_key
from aotbuild.build.direct.reads import JobReads, Reads
from aotbuild.build.direct.world import Python, Worlds
from aotbuild.build.progress import compared
from aotbuild.build.protocol import NotAMessage, json_of, reply_of
from aotbuild.build.replies import (
    Compiled,
    Failed,
    FedBack,
    GoldenFailed,
    GoldenMade,
    GoldenSkipped,
    Imported,
    Inputs,
    PaddingFailed,
    Reply,
    ShrinkCompared,
)
from aotbuild.build.requests import Hello
from aotbuild.build.schedule import Task
from aotbuild.build.settings import Settings
from aotbuild.build.sources import SourceTree
from aotbuild.format.files import make_folders, write_whole
from aotbuild.format.record import Blob
from aotbuild.store.entry import OTHER_CONTENT
from aotbuild.store.file_digests import DIGESTS, FileDigests
from aotbuild.store.keys import result_key
from aotbuild.store.layers import Layers
from aotbuild.store.marks import differences, values_differ
from aotbuild.store.read_set import Places, ReadSet, World

_LOG = logging.getLogger("aotbuild")
_FAILED = (Failed, PaddingFailed, GoldenFailed)
_KEPT = (FedBack, Compiled, GoldenMade, GoldenSkipped)
# Modes of golden outputs that this build chose, for what happened in it. The next one starts anew.
_CHOSEN_BY_BUILD = ("unsafe", "slow")
_MANIFEST = "manifest"
# States that a job is compared with, to say what differs: marks may be behind a network.
_COMPARED = 6
# A path in a note, and how it is kept.
_PATH = re.compile(r"(?<![\w.:/>])/[^\s:'\"`,;()<>]+")
_NAME = re.compile(r"<((?:import|root|home):[^<>]+)>")
# What an entry of anybody's, or a file that just vanished, may raise.
_BROKEN = (OSError, SubprocessError, *OTHER_CONTENT)


@dataclass
class _Job:
    """A job on its way: its outer key, what it may read, and its worker's messages so far.

    `because` says what differs from the last time, if it was not found.
    """

    outer: str
    label: str
    settings: Settings
    python: Python
    world: World
    messages: list[Reply] = field(default_factory=list)
    because: str = ""


class DirectMode:
    """Attempts at jobs that the store may already have, whole. Safe to use from several threads.

    `attempt` gives one job to one worker. `reads` gets what each job read.
    """

    def __init__(
        self,
        attempt: Callable[[Request, Tell], Outcome],
        hello: Hello,
        sources: SourceTree,
        layers: Layers,
        reads: Reads,
    ) -> None:
        assert layers.front is not None, "without a store there is nothing to look in"
        self._attempt, self._hello, self._sources = attempt, hello, sources
        self._digests = FileDigests(layers.front / DIGESTS)
        self._worlds = Worlds(sources, self._digests)
        self._entries = DirectEntries(layers)
        self._reads = reads
        self._kept: dict[tuple[Settings, str], set[str]] = {}

    def kept(self, task: Task) -> set[str]:
        """Return the keys of what is kept of a task's job, or was taken."""
        return self._kept.get((task.settings, task.job.label), set())

    def __call__(self, request: Request, tell: Tell) -> Outcome:
        """Take a job from the store, or give it to a worker and keep what that says."""
        job = self._begun(request)
        if job is None:
            self._reads.complete = False
            return self._attempt(request, tell)
        found = self._found(job)
        if found is not None:
            for message in found:
                tell(message)
            return Outcome()

        def listen(message: Reply, at: float | None = None, /) -> None:
            if isinstance(message, Inputs):
                message = message.model_copy(update={"because": message.obstacle or job.because})
            job.messages.append(message)
            tell(message, at)

        outcome = self._attempt(request, listen)
        if outcome.exited is not None or not self._keep(job):
            self._reads.complete = False
        return outcome

    def _begun(self, request: Request) -> _Job | None:
        if request.job.golden in _CHOSEN_BY_BUILD:
            return None
        try:
            python = self._worlds.python(request.settings)
            outer = outer_key(request, self._hello, self._sources, python, self._digests)
            settings = request.settings
            label, world = request.job.label, self._worlds.of(settings)
            return _Job(outer, label, settings, python, world)
        except _BROKEN as err:
            _LOG.debug("%s: not looked up: %s", request.job.label, err)
            return None

    def _found(self, job: _Job) -> list[Reply] | None:
        """Return the messages of a job whose inputs are as they were; its blobs are there then."""
        known: list[Candidate] = []
        try:
            for candidate in self._entries.candidates(job.outer):
                known.append(candidate)
                if messages := self._messages_of(job, candidate):
                    return messages
            job.because = self._because(job, known)
        except _BROKEN as err:
            _LOG.warning("an entry of the store for direct mode is not used: %s", err)
        return None

    def _messages_of(self, job: _Job, candidate: Candidate) -> list[Reply] | None:
        """Return the messages of a job that read these names, if it found what is there now."""
        try:
            names = candidate.names
            state = self._worlds.state(job.world, names)
            result = self._entries.result(job.outer, candidate, state)
            if result is None:
                return None
            messages = [*self._messages(result, job.world.places)]
            if not self._fetch(messages, result.blobs):
                return None
        except (NotAMessage, *_BROKEN) as err:
            _LOG.warning("an entry of the store for direct mode is not used: %s", err)
            return None
        self._entries.use(job.outer, candidate)
        self._reads.saw(job.world, names)
        self._add(job, names, state, result.blobs)
        return messages

    def _because(self, job: _Job, known: Sequence[Candidate]) -> str:
        """Return the first thing that differs from the nearest state that is known, by its name."""
        found: list[tuple[int, str]] = []
        # Of two that are as near, the first one is newer.
        for candidate in known[:_COMPARED]:
            names = candidate.names
            now = self._worlds.marks(job.world, names)
            before = self._entries.marks(candidate, now)
            if before is not None:
                texts = [*differences(names.sets, before, now)]
                found.append((len(texts), (texts or [values_differ(names.sets, now)])[0]))
        return min(found, key=lambda each: each[0], default=(0, ""))[1]

    def _fetch(self, messages: Sequence[Reply], keys: Mapping[str, str]) -> bool:
        """Write the blobs of a job; False if one is gone."""
        for blob in {blob for message in messages for blob in _blobs(message)}:
            place, key = self._hello.blobs / blob.path, keys[blob.sha256]
            if place.exists():
                self._entries.store.use(key)
                continue
            data = self._entries.blob(key, blob.sha256)
            if data is None:
                return False
            make_folders(place.parent)
            write_whole(place, data)
        return True

    def _messages(self, result: Result, places: Places) -> Iterator[Reply]:
        for data in result.messages:
            message = _with_notes(reply_of(data), lambda note: _here(note, places))
            if isinstance(message, Compiled):
                provenance = {**message.record.provenance, **self._hello.provenance}
                record = replace(message.record, provenance=provenance)
                update = {"record": record, "stored": True, "direct": True}
                message = message.model_copy(update=update)
            yield message

    def _keep(self, job: _Job) -> bool:
        """Keep a job's messages, if something stands for everything that it read."""
        inputs = next((m for m in job.messages if isinstance(m, Inputs)), None)
        if inputs is None:
            return False
        names = Names.of(ReadSet.from_json(inputs.own), ReadSet.from_json(inputs.shared))
        self._reads.saw(job.world, names)
        if inputs.obstacle or any(_failed(message) for message in job.messages):
            return False
        if (inputs.machine, inputs.python) != (machine_facts(), job.python.version):
            return False  # another machine did it, where golden outputs may be others
        if inputs.encodings != job.python.encodings:
            return False  # nor is it known how files were read there
        records = [m.record for m in job.messages if isinstance(m, Compiled)]
        if not all(is_as_known(each, job.settings, self._hello) for each in records):
            return False
        compiled = {m.target: m for m in job.messages if isinstance(m, Compiled)}
        notes = [m for m in job.messages if isinstance(m, ShrinkCompared)]
        if any(m.note for m in notes):
            return False
        for target in (m.target for m in notes):
            compiled[target] = compared(compiled[target], "")
        kept = [
            compiled[m.target] if isinstance(m, Compiled) else m
            for m in job.messages
            if isinstance(m, _KEPT)
        ]
        try:
            return self._write(job, inputs, names, kept)
        except _BROKEN as err:
            _LOG.warning("not kept for direct mode: %s", err)
            return False

    def _write(self, job: _Job, inputs: Inputs, names: Names, kept: Sequence[Reply]) -> bool:
        blobs = {blob.sha256: blob for message in kept for blob in _blobs(message)}
        keys: dict[str, str] = {}
        for sha256, blob in blobs.items():
            key = inputs.stored.get(sha256)
            if key is None and blob.kind == "pjrt":
                return False  # the store may not keep it
            keys[sha256] = key or self._kept_blob(blob)
        places = job.world.places
        messages = [
            json_of(_with_notes(_general(message), lambda note: _elsewhere(note, places)))
            for message in (Imported(files=inputs.imported), *kept)
        ]
        is_local = any(_PATH.search(note) for m in messages for note in m.get("notes", ()))
        result = Result(messages, keys)
        self._entries.keep(job.outer, names, inputs.state, result, inputs.marks, local=is_local)
        self._digests.save()
        self._add(job, names, inputs.state, keys)
        return True

    def _add(self, job: _Job, names: Names, state: str, blobs: Mapping[str, str]) -> None:
        """Note what a job read, and where the store has what it made."""
        self._reads.add(JobReads(job.settings, names, state), blobs)
        result = result_key(job.outer, names.digests, state)
        self._kept[job.settings, job.label] = {result, *blobs.values()}

    def _kept_blob(self, blob: Blob) -> str:
        data = (self._hello.blobs / blob.path).read_bytes()
        return self._entries.keep_blob(data, blob.sha256)


def _failed(message: Reply) -> bool:
    """Return whether a message says that something failed, so the next build tries again."""
    is_transient = isinstance(message, GoldenSkipped) and message.transient
    return is_transient or isinstance(message, _FAILED)


def _blobs(message: Reply) -> Iterator[Blob]:
    """Yield the blobs that a message names, and that a package may need."""
    if isinstance(message, Compiled):
        yield from message.record.blobs()
        yield from (blob for _, blob in message.record.stages)
    if isinstance(message, GoldenMade):
        yield from (blob for _, blob in message.golden.inputs)
        yield message.golden.outputs


def _general(message: Reply) -> Reply:
    """Return a message without what another build would say otherwise."""
    if not isinstance(message, Compiled):
        return message
    provenance = {n: v for n, v in message.record.provenance.items() if n != _MANIFEST}
    record = replace(message.record, provenance=provenance)
    return message.model_copy(update={"record": record, "stored": True, "plain": None})


def _with_notes(message: Reply, change: Callable[[str], str]) -> Reply:
    if not isinstance(message, Compiled | GoldenMade | GoldenSkipped):
        return message
    return message.model_copy(update={"notes": tuple(map(change, message.notes))})


def _elsewhere(note: str, places: Places) -> str:
    """Return a note with names in place of paths, where a path has one."""

    def name(match: re.Match[str]) -> str:
        found = places.name(match[0])
        return match[0] if found.startswith(os.sep) else f"<{found}>"

    return _PATH.sub(name, note)


def _here(note: str, places: Places) -> str:
    """Return a note with the paths that its names mean on this machine."""
    return _NAME.sub(lambda match: places.place(match[1]), note)
