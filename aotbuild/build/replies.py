"""What worker processes tell the build; `build.protocol` says when."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from aotbuild.build.jobs import Fed
from aotbuild.build.requests import VERSION, Message
from aotbuild.format.canonical import is_utf8
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

_V = TypeVar("_V")


def _named(found: _V) -> _V:
    """Return JSON whose names are text: pydantic writes no others, or as something else."""
    parts: Iterable[Any] = found if isinstance(found, list | tuple) else ()
    if isinstance(found, dict):
        if not all(map(is_utf8, found)):
            msg = "expected names in UTF-8"
            raise ValueError(msg)
        parts = found.values()
    for each in parts:
        _named(each)
    return found


_Texts = Annotated[dict[str, str], AfterValidator(_named)]


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


class Ready(Message):
    """The process is a worker."""

    type: Literal["ready"] = "ready"
    version: int = VERSION


class FedBack(Message):
    """What `feedback:` passes to the next call has other avals than any call before had."""

    type: Literal["fed_back"] = "fed_back"
    fed: Fed


class Busy(Message):
    """What the worker does now, for people, as `importing mypkg.model`.

    `waits` says that nobody does anything: the job waits for a machine.
    """

    type: Literal["busy"] = "busy"
    doing: str
    waits: bool = False


class Imported(Message):
    """Files below the project's folder that were imported for this job: their paths."""

    type: Literal["imported"] = "imported"
    files: tuple[str, ...]


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

    `plain` takes its place if it was rewritten and the comparison with the plain one fails.
    """

    type: Literal["compiled"] = "compiled"
    target: str
    function: Annotated[Function, _AsJson(Function.to_json, Function.from_json)]
    record: Annotated[Record, _AsJson(record_to_json, record_from_json)]
    notes: tuple[str, ...] = ()
    stored: bool = False
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

    `blobs` has the key of each blob that is an entry of the store, by SHA-256. `problems` are those
    of `store.local.Store`, for people.
    """

    type: Literal["entries"] = "entries"
    made: tuple[str, ...]
    used: tuple[str, ...]
    blobs: _Texts = Field(default_factory=dict)
    problems: dict[str, str] = Field(default_factory=dict)


class Done(Message):
    """The job is finished."""

    type: Literal["done"] = "done"


Reply = (
    Ready
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
    | Wanted
    | Entries
    | Done
)
