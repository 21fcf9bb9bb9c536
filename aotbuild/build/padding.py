"""What a job is told about padding: the dims, all their sizes, and the specs with dims unbound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from aotbuild.build.manifest import ArgSpec, FunctionEntry, bind_dims, spec_from_json, spec_to_json
from aotbuild.spec.padding import PaddedDim, one_nan
from aotbuild.spec.values import decode, encode

if TYPE_CHECKING:
    from aotbuild.build.jobs import Job

Named = tuple[tuple[str, ArgSpec], ...]


@dataclass(frozen=True)
class JobPadding:
    """The padded dims of a function, and what it takes to trace it at other sizes.

    `buckets` are the sizes of these dims in all rows, each once, sorted.
    """

    dims: tuple[PaddedDim, ...]
    buckets: tuple[tuple[int, ...], ...]
    args: Named
    kwargs: Named

    @classmethod
    def of(cls, function: FunctionEntry) -> JobPadding | None:
        """Return what jobs of a function are told; None where it pads nothing."""
        if not function.pad:
            return None
        names = [dim.name for dim in function.pad]
        buckets = {tuple(dict(row)[name] for name in names) for row in function.rows}
        return cls(function.pad, tuple(sorted(buckets)), function.args, function.kwargs)

    def at(self, job: Job, sizes: dict[str, int]) -> Job:
        """Return a job with other sizes of dims; those not given stay as they are."""
        row = {**dict(job.dims), **sizes}
        return replace(
            job,
            args=tuple((name, bind_dims(spec, row)) for name, spec in self.args),
            kwargs=tuple((name, bind_dims(spec, row)) for name, spec in self.kwargs),
            sample=(),
            dims=tuple(row.items()),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return {
            "dims": [[dim.name, encode(dim.value), dim.safe] for dim in self.dims],
            "buckets": [list(bucket) for bucket in self.buckets],
            "args": [[name, spec_to_json(spec)] for name, spec in self.args],
            "kwargs": [[name, spec_to_json(spec)] for name, spec in self.kwargs],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any] | None) -> JobPadding | None:
        """Read what `to_json` wrote; None stays None."""
        if data is None:
            return None
        return cls(
            dims=tuple(
                PaddedDim(name, one_nan(decode(value)), safe) for name, value, safe in data["dims"]
            ),
            buckets=tuple(map(tuple, data["buckets"])),
            args=tuple((name, spec_from_json(spec)) for name, spec in data["args"]),
            kwargs=tuple((name, spec_from_json(spec)) for name, spec in data["kwargs"]),
        )
