"""The protocol between a build and its worker processes: JSON lines, one message on each.

A message is one of the frozen classes below, written as a JSON object whose `type` names its class.
The build writes to the worker's stdin and reads from its stdout; the worker's stderr is its log.

| who    | message    | when                                                                   |
|--------|------------|------------------------------------------------------------------------|
| build  | `hello`    | first, once: what holds for the worker's whole life                    |
| worker | `ready`    | in reply, before it imports jax                                        |
| build  | `job`      | one at a time; the next follows `done`                                 |
| worker | `wanted`   | at any time in a job: an entry of the store that the folder lacks      |
| build  | `fetched`  | in reply                                                               |
| worker | `started`  | before each stage, so that a crash is reported under its name          |
| worker | `compiled` | a unit's record; the last one for a target counts                      |
| worker | `failed`   | the error of one unit, or of all; the job's other units go on          |
| worker | `golden`   | golden outputs for every unit of the job, or why there are none        |
| worker | `done`     | the job is finished: what it took from the store, and passes back      |

A job's messages come in the order of this table. Both sides name their `version` in the first
message and refuse another one. After `ready`, each line of the worker begins with the `token` of
`hello`: the user's code shares the process, and may write to its files. Closing stdin ends the
worker. A line that is no message is an error of the worker: the build kills it, and its unfinished
units fail.
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
from aotbuild.format.record import Blob, Golden, Record
from aotbuild.format.record_json import (
    blob_from_json,
    blob_to_json,
    golden_from_json,
    golden_to_json,
    record_from_json,
    record_to_json,
)
from aotbuild.format.signature import Function

# Increase it with every change that an older side would misread.
VERSION = 9
# What a job is doing, in this order: failures name it.
Stage = Literal["trace", "compile", "pad", "golden", "shrink"]

_Kind = TypeVar("_Kind")
_Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Word = Annotated[str, Field(pattern="^[a-z]+$")]


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
            lambda value: value if isinstance(value, kind) else self._read(value, kind),
            serialization=core_schema.plain_serializer_function_ser_schema(self.to_json),
        )

    def _read(self, value: Any, kind: Any) -> Any:
        try:
            found = self.from_json(value)
        except (TypeError, LookupError, AttributeError) as err:
            msg = f"{type(err).__name__}: {err}"
            raise ValueError(msg) from err
        if not isinstance(found, kind):  # null may stand for none
            msg = f"expected a {kind.__name__}, found {value!r}"
            raise ValueError(msg)
        return found


_Function = Annotated[Function, _AsJson(Function.to_json, Function.from_json)]
_Record = Annotated[Record, _AsJson(record_to_json, record_from_json)]
_Golden = Annotated[Golden, _AsJson(golden_to_json, golden_from_json)]
_Blob = Annotated[Blob, _AsJson(blob_to_json, blob_from_json)]


class Message(BaseModel):
    """What all messages share: immutable, and no field that the class does not name."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


# --- from the build -------------------------------------------------------------------------------


class Hello(Message):
    """Settings for a worker's whole life. Paths are absolute.

    After `ready`, each line of the worker begins with `token`, which the user's code does not know.

    `blobs` is the folder for what it makes; `store` is the front of the store, if there is one.
    `behind` says that the build can fetch entries that it lacks. `root` is the project's folder.
    No byte of a package may contain one of `secret_paths`. Each record's provenance begins with
    `provenance`. `config` holds settings of jax.
    """

    type: Literal["hello"] = "hello"
    version: int = VERSION
    token: str = ""
    blobs: Path
    store: Path | None = None
    behind: bool = False
    root: Path | None = None
    secret_paths: tuple[str, ...] = ()
    provenance: dict[str, str] = {}
    config: tuple[tuple[str, Any], ...] = ()


class RunJob(Message):
    """One trace, and the targets to compile it for."""

    type: Literal["job"] = "job"
    job: Job


class Fetched(Message):
    """Whether the folder of the store now has the entry that the worker wanted."""

    type: Literal["fetched"] = "fetched"
    found: bool


# --- from the worker ------------------------------------------------------------------------------


class Ready(Message):
    """The process is a worker."""

    type: Literal["ready"] = "ready"
    version: int = VERSION


class Wanted(Message):
    """An entry that the folder of the store lacks; the worker waits for `fetched`."""

    type: Literal["wanted"] = "wanted"
    key: str


class Started(Message):
    """A stage of the job begins, or a part of it.

    `target` is what is compiled for. `doing` is for people, as `importing mypkg.model`. From `pad`
    on, the user's function or a rewritten executable runs, and may do anything to the process.
    """

    type: Literal["started"] = "started"
    stage: Stage = "trace"
    target: str | None = None
    doing: str = ""


class Compiled(Message):
    """An executable was made, or taken from the store (`stored`). `notes` are for the user.

    `plain` takes its place if it was rewritten and is still to be compared with the plain one;
    after the comparison comes another message without it.
    """

    type: Literal["compiled"] = "compiled"
    target: str
    function: _Function
    record: _Record
    notes: tuple[str, ...] = ()
    stored: bool = False
    plain: _Blob | None = None


class Failed(Message):
    """A unit failed in a `stage`, or all of them without `target`; texts are for the user."""

    type: Literal["failed"] = "failed"
    target: str | None = None
    stage: Stage
    error: str


class GoldenOutputs(Message):
    """Golden outputs, and the dtypes of the floats that the function computes with.

    Without them, the record keeps `reason`. `notes` are for the user. `transient` says that the
    next build may have them, as after want of memory.
    """

    type: Literal["golden"] = "golden"
    golden: _Golden | None = None
    floats: tuple[str, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()
    transient: bool = False


class Done(Message):
    """The job is finished.

    `fed` are the avals of what `feedback:` passes to the next call, if no call before had them.
    `made` and `used` are the keys of entries of the store that the job made, and that it found;
    `blobs` has the key of each blob that is an entry, by SHA-256. `problems` are those of
    `store.folder.Store`, for people.
    """

    type: Literal["done"] = "done"
    fed: Fed | None = None
    made: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    blobs: dict[_Sha256, str] = Field(default_factory=dict)
    problems: dict[_Word, str] = Field(default_factory=dict)


ToWorker = Hello | RunJob | Fetched
Reply = Ready | Wanted | Started | Compiled | Failed | GoldenOutputs | Done

_REQUESTS: TypeAdapter[ToWorker] = TypeAdapter(Annotated[ToWorker, Field(discriminator="type")])
_REPLIES: TypeAdapter[Reply] = TypeAdapter(Annotated[Reply, Field(discriminator="type")])


def to_line(message: ToWorker | Reply, token: str = "") -> str:
    """Return a message as the line to write, with its line end."""
    return f"{token}{json.dumps(message.model_dump(mode='json'))}\n"


def read_request(line: str) -> ToWorker:
    """Return what the build wrote; WrongVersion or NotAMessage otherwise."""
    return _read(_REQUESTS, line)


def read_reply(line: str, token: str = "") -> Reply:
    """Return what the worker wrote; WrongVersion or NotAMessage otherwise."""
    if not line.startswith(token):
        msg = f"{line[:200]!r}: code of the project wrote it into a file that it did not open"
        raise NotAMessage(msg)
    return _read(_REPLIES, line.removeprefix(token))


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
