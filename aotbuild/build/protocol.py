"""The protocol between a build and its worker processes: JSON lines, one message on each.

A message is one of the frozen classes below, written as a JSON object whose `type` names its class.
The build writes to the worker's stdin and reads from its stdout; the worker's stderr is its log.

| who    | message           | when                                                               |
|--------|-------------------|--------------------------------------------------------------------|
| build  | `hello`           | first, once: what holds for the worker's whole life                |
| worker | `ready`           | in reply, before it imports jax                                    |
| build  | `job`             | one at a time; the next follows `done`                             |
| worker | `wanted`          | at any time in a job: an entry of the store that the folder lacks  |
| build  | `fetched`         | in reply                                                           |
| worker | `imported`        | modules of the project that no job before had, for this trace      |
| worker | `fed_back`        | a result that is passed back has other avals: the next job's       |
| worker | `elsewhere`       | in place of all that follow: another process must run the job       |
| worker | `busy`            | before what may take long, for people: importing, tracing          |
| worker | `compile_started` | before each unit, so that a crash is reported under its name       |
| worker | `compiled`        | a unit's record                                                    |
| worker | `failed`          | a unit's error; the job's other units go on                        |
| worker | `padding_started` | before the user's function is called to see what padding changes   |
| worker | `padding_failed`  | padding changes a result, so every unit of the job fails           |
| worker | `golden_started`  | before the user's function is called to compute golden outputs     |
| worker | `golden_made`     | golden outputs, for every unit of the job                          |
| worker | `golden_skipped`  | there are none, and why                                            |
| worker | `golden_failed`   | there are none though the manifest demands them: every unit fails  |
| worker | `shrink_started`  | before rewritten executables run beside the plain ones             |
| worker | `shrink_compared` | whether a rewritten executable gave the same results               |
| worker | `trace_explained` | in place of all of these, where `hello` says `explain`             |
| worker | `entries`         | keys of the store that the job made and used, if any               |
| worker | `inputs`          | what a traced job read, where `hello` says `inputs`                |
| worker | `done`            | the job is finished                                                |

A job's messages come in the order of this table. Both sides name their `version` in the first
message and refuse another one. Closing stdin ends the worker. A line that is no message is an error
of the worker: the build kills it, and its unfinished units fail.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, core_schema

from aotbuild.build.jobs import Fed, Job
from aotbuild.spec.record import Blob, Golden, Record
from aotbuild.spec.record_json import (
    blob_from_json,
    blob_to_json,
    golden_from_json,
    golden_to_json,
    record_from_json,
    record_to_json,
)
from aotbuild.spec.signature import Function

# Increase it with every change that an older side would misread.
VERSION = 2
_Kind = TypeVar("_Kind")


class NotAMessage(ValueError):
    """A line is not a message of this protocol; the text is the beginning of the line, quoted."""


class WrongVersion(ValueError):
    """The other side speaks another version of the protocol; the text says which."""


@dataclass(frozen=True)
class _AsJson:
    """Annotates a field whose class has a JSON form of its own."""

    to_json: Callable[[Any], Any]
    from_json: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, kind: Any, _: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, kind) else self.from_json(value),
            serialization=core_schema.plain_serializer_function_ser_schema(self.to_json),
        )


class Message(BaseModel):
    """What all messages share: immutable, and no field that the class does not name."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Hello(Message):
    """Settings for a worker's whole life. Paths are absolute.

    `blobs` is the folder for what it makes; `store` is the front of the store, if there is one.
    `behind` says that the build can fetch entries that it lacks. `root` is the project's folder, if
    its modules are to be reported. `keep` names the stages to keep. No byte of a package may
    contain one of `secret_paths`. Each record's provenance begins with `provenance`. `config` holds
    settings of jax. With `explain`, the worker traces and does not compile. With
    `inputs`, it says what jobs read; `digests` is the file that keeps the digests of files. With
    `fix_hashes`, hash tables of XLA have one order, where it can be fixed.
    """

    type: Literal["hello"] = "hello"
    version: int = VERSION
    blobs: Path
    store: Path | None = None
    behind: bool = False
    root: Path | None = None
    keep: tuple[str, ...] = ()
    secret_paths: tuple[str, ...] = ()
    provenance: dict[str, str] = {}
    config: tuple[tuple[str, Any], ...] = ()
    explain: bool = False
    inputs: bool = False
    digests: Path | None = None
    fix_hashes: bool = True


class RunJob(Message):
    """One trace, and the targets to compile it for."""

    type: Literal["job"] = "job"
    job: Job


class Fetched(Message):
    """Whether the folder of the store now has the entry that the worker wanted."""

    type: Literal["fetched"] = "fetched"
    found: bool


class Ready(Message):
    """The process is a worker."""

    type: Literal["ready"] = "ready"
    version: int = VERSION


class FedBack(Message):
    """What `feedback:` passes to the next call has other avals than any call before had."""

    type: Literal["fed_back"] = "fed_back"
    fed: Fed


class Elsewhere(Message):
    """The process has imported modules that changed settings of jax, and the job names others.

    The job is as if it had not been sent.
    """

    type: Literal["elsewhere"] = "elsewhere"


class Busy(Message):
    """What the worker does now, for people, as `importing mypkg.model`.

    `waits` says that nobody does anything: the job waits for a machine.
    """

    type: Literal["busy"] = "busy"
    doing: str
    waits: bool = False


class Imported(Message):
    """Files below the project's folder that were imported for this job: paths and digests."""

    type: Literal["imported"] = "imported"
    files: tuple[tuple[str, str], ...]


class CompileStarted(Message):
    """The worker begins to compile for `target`."""

    type: Literal["compile_started"] = "compile_started"
    target: str


class Embedded(BaseModel):
    """The constants in one executable, in bytes, and the largest of them, for people."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    total: int
    largest: str
    largest_bytes: int


class Compiled(Message):
    """An executable was made, or taken from the store (`stored`). `notes` are for the user.

    The build says `direct` of one that it found without a worker (`build.direct`).
    `plain` takes its place if it was rewritten and the comparison with the plain one fails.
    """

    type: Literal["compiled"] = "compiled"
    target: str
    function: Annotated[Function, _AsJson(Function.to_json, Function.from_json)]
    record: Annotated[Record, _AsJson(record_to_json, record_from_json)]
    notes: tuple[str, ...] = ()
    stored: bool = False
    direct: bool = False
    embedded: Embedded | None = None
    plain: Annotated[Blob, _AsJson(blob_to_json, blob_from_json)] | None = None


class Failed(Message):
    """A unit failed in a `stage`, `trace` or `compile`; `error` and `printed` are for the user.

    `function` and `key`, that of the signature, are given as far as they are known.
    """

    type: Literal["failed"] = "failed"
    target: str
    stage: str
    error: str
    printed: str = ""
    function: Annotated[Function, _AsJson(Function.to_json, Function.from_json)] | None = None
    key: str | None = None


class PaddingStarted(Message):
    """From here on the user's function runs, and may do anything to the process."""

    type: Literal["padding_started"] = "padding_started"


class PaddingFailed(Message):
    """Padding changes what the function returns, or it could not be called."""

    type: Literal["padding_failed"] = "padding_failed"
    error: str


class GoldenStarted(Message):
    """From here on the user's function runs, and may do anything to the process."""

    type: Literal["golden_started"] = "golden_started"


class GoldenMade(Message):
    """Golden outputs, and the dtypes of the floats that the function computes with."""

    type: Literal["golden_made"] = "golden_made"
    golden: Annotated[Golden, _AsJson(golden_to_json, golden_from_json)]
    floats: tuple[str, ...]
    notes: tuple[str, ...] = ()


class GoldenSkipped(Message):
    """There are no golden outputs. The record keeps `reason`; `notes` are for the user.

    `transient` says that the next build may have them, as after want of memory.
    """

    type: Literal["golden_skipped"] = "golden_skipped"
    reason: str
    notes: tuple[str, ...] = ()
    transient: bool = False


class GoldenFailed(Message):
    """There are no golden outputs though the manifest demands them."""

    type: Literal["golden_failed"] = "golden_failed"
    error: str


class ShrinkStarted(Message):
    """From here on executables run, and a rewritten one could do anything to the process."""

    type: Literal["shrink_started"] = "shrink_started"


class ShrinkCompared(Message):
    """A rewritten executable gave the same results as the plain one; or `note` says why not."""

    type: Literal["shrink_compared"] = "shrink_compared"
    target: str
    note: str = ""


class TraceExplained(Message):
    """A trace without constants and names: see `worker.skeleton.skeleton`.

    `steps` has a row for each equation: depth, primitive, `file:line in function`, and a digest of
    the rest.
    """

    type: Literal["trace_explained"] = "trace_explained"
    steps: tuple[tuple[int, str, str, str], ...]
    notes: tuple[str, ...] = ()


class Wanted(Message):
    """An entry that the folder of the store lacks; the worker waits for `fetched`."""

    type: Literal["wanted"] = "wanted"
    key: str


class Entries(Message):
    """Keys of the store: of entries that the job made, and of those it found.

    `problems` are those of `store.local.Store`, for people.
    """

    type: Literal["entries"] = "entries"
    made: tuple[str, ...]
    used: tuple[str, ...]
    problems: dict[str, str] = {}


class Inputs(Message):
    """What a job read, for direct mode: see `store.read_set`.

    `own` belongs to the job, `shared` to all jobs of the process, and `state` is the digest of what
    was there. `obstacle` says why nothing stands for what the job read. `imported` are the files of
    the project as in `imported`, whichever job imported them first. `stored` has the store's key of
    each blob that is an entry of it, by SHA-256. `machine` and `python` say what ran the job.
    `marks` are those of both sets of names (`store.marks`). `because`, which the build adds, is
    what differs from the last time.
    """

    type: Literal["inputs"] = "inputs"
    own: dict[str, Any]
    shared: dict[str, Any]
    state: str
    obstacle: str = ""
    imported: tuple[tuple[str, str], ...] = ()
    stored: dict[str, str] = {}
    machine: list[Any] = []
    python: str = ""
    marks: tuple[dict[str, str], dict[str, str]] | None = None
    because: str = ""


class Done(Message):
    """The job is finished."""

    type: Literal["done"] = "done"


Request = Hello | RunJob | Fetched
Reply = (
    Ready
    | Elsewhere
    | FedBack
    | Busy
    | Imported
    | CompileStarted
    | Compiled
    | Failed
    | PaddingStarted
    | PaddingFailed
    | GoldenStarted
    | GoldenMade
    | GoldenSkipped
    | GoldenFailed
    | ShrinkStarted
    | ShrinkCompared
    | TraceExplained
    | Inputs
    | Wanted
    | Entries
    | Done
)
_REQUESTS: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="type")])
_REPLIES: TypeAdapter[Reply] = TypeAdapter(Annotated[Reply, Field(discriminator="type")])


def to_line(message: Request | Reply) -> str:
    """Return a message as the line to write, with its line end."""
    return json.dumps(json_of(message)) + "\n"


def json_of(message: Request | Reply) -> dict[str, Any]:
    """Return the JSON of a message."""
    return message.model_dump(mode="json")


def reply_of(data: dict[str, Any]) -> Reply:
    """Return what a worker once said; ValueError if it is no message of this version."""
    return _REPLIES.validate_python(data)


def read_request(line: str) -> Request:
    """Return what the build wrote; WrongVersion or NotAMessage otherwise."""
    return _read(_REQUESTS, line)


def read_reply(line: str) -> Reply:
    """Return what the worker wrote; WrongVersion or NotAMessage otherwise."""
    return _read(_REPLIES, line)


def _read(messages: TypeAdapter[_Kind], line: str) -> _Kind:
    try:
        data = json.loads(line)
        # Before the other fields, which another version may have changed.
        if data["type"] in ("hello", "ready") and data["version"] != VERSION:
            msg = f"version {data['version']} of the worker protocol, expected {VERSION}"
            raise WrongVersion(msg)
        return messages.validate_python(data)
    except WrongVersion:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as err:
        msg = f"{line[:200]!r}: {err}"
        raise NotAMessage(msg) from err
