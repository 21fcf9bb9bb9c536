"""The protocol between a build and its worker processes: JSON lines, one message on each.

A message is one of the frozen classes in `requests` and `replies`, written as a JSON object whose
`type` names its class. The build writes to the worker's stdin and reads from its stdout; the
worker's stderr is its log.

| who    | message           | when                                                               |
|--------|-------------------|--------------------------------------------------------------------|
| build  | `hello`           | first, once: what holds for the worker's whole life                |
| worker | `ready`           | in reply, before it imports jax                                    |
| build  | `job`             | one at a time; the next follows `done`                             |
| worker | `wanted`          | at any time in a job: an entry of the store that the folder lacks  |
| build  | `fetched`         | in reply                                                           |
| worker | `imported`        | modules of the project that the job imported, for this trace       |
| worker | `fed_back`        | a result that is passed back has other avals: the next job's       |
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
| worker | `done`            | the job is finished                                                |

A job's messages come in the order of this table. Both sides name their `version` in the first
message and refuse another one. After `ready`, each line of the worker begins with the `token` of
`hello`: the user's code shares the process, and may write to its files. Closing stdin ends the
worker. A line that is no message is an error of the worker: the build kills it, and its unfinished
units fail.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter

from aotbuild.build.replies import Reply
from aotbuild.build.requests import VERSION, Request

_Kind = TypeVar("_Kind")


class NotAMessage(ValueError):
    """A line is not a message of this protocol; the text is the beginning of the line, quoted."""


class WrongVersion(ValueError):
    """The other side speaks another version of the protocol; the text says which."""


_REQUESTS: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="type")])
_REPLIES: TypeAdapter[Reply] = TypeAdapter(Annotated[Reply, Field(discriminator="type")])


def to_line(message: Request | Reply, token: str = "") -> str:
    """Return a message as the line to write, with its line end."""
    return f"{token}{json.dumps(json_of(message))}\n"


def json_of(message: Request | Reply) -> dict[str, Any]:
    """Return the JSON of a message."""
    return message.model_dump(mode="json")


def reply_of(data: dict[str, Any]) -> Reply:
    """Return what a worker once said; ValueError if it is no message of this version."""
    return _REPLIES.validate_python(data)


def read_request(line: str) -> Request:
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
