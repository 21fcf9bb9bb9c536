"""Custom calls: LAPACK is initialized here, before an executable that calls it is loaded.

A record names each native function that its executable calls, and the function's provider: `xla` is
always there, `jax` and `user` register theirs on import, and `lapack` needs the call below. This
module is imported only for a record that has custom calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aotbuild.errors import AotbuildError
from aotbuild.spec.record import Record

if TYPE_CHECKING:
    from aotbuild.runtime.backends.protocol import ExecutableLoader

_REMEDY = "They come from scipy: reinstall it. At the end of a process it may be too late."


def initialize(record: Record, loader: ExecutableLoader) -> None:
    """Initialize what a record's custom calls need.

    An executable that calls a LAPACK kernel before jaxlib has bound it to scipy's segfaults.
    """
    if any(call.provider == "lapack" for call in record.requires.custom_calls):
        try:
            loader.initialize_lapack()
        except Exception as err:
            found = f"{type(err).__name__}: {err}"
            what = "jaxlib could not initialize LAPACK's kernels"
            msg = f"{record}: {what}\n  found    {found}\n{_REMEDY}"
            raise AotbuildError(msg) from err
