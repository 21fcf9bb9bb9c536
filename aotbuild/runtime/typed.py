"""What `aotbuild stubs` builds on: a library and a kernel, as protocols for type checkers.

A library has its functions as attributes, which type checkers cannot know. A stub adds them to
`TypedLibrary`, and `load` returns whatever typed library the caller asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, overload

if TYPE_CHECKING:
    import inspect

    from aotbuild.format.record import Record
    from aotbuild.format.signature import Function
    from aotbuild.runtime.explanation import Explanation
    from aotbuild.runtime.kernel import Kernel
    from aotbuild.runtime.preloading import Preloading
    from aotbuild.runtime.readiness import Readiness
    from aotbuild.runtime.signatures import SignatureInfo
    from aotbuild.runtime.swap import ConstantInfo


class TypedKernel(Protocol):
    """What a kernel has beside its call; see `aotbuild.runtime.kernel.Kernel`."""

    function: Function

    @property
    def __name__(self) -> str: ...
    @property
    def __signature__(self) -> inspect.Signature: ...
    @property
    def records(self) -> tuple[Record, ...]: ...
    def keeping(self, *results: int | str) -> Kernel: ...


class TypedLibrary(Protocol):
    """What a library has beside its functions; see `aotbuild.runtime.library.Library`."""

    @property
    def version(self) -> str | None: ...
    @property
    def digest(self) -> str: ...
    @property
    def signers(self) -> tuple[str, ...]: ...
    @cached_property
    def functions(self) -> tuple[str, ...]: ...
    def open(self) -> None: ...
    def on(self, where: Any) -> Self: ...
    def kernel(self, name: str, source: Callable[..., Any] | None = None) -> Kernel: ...
    def info(self) -> dict[str, Any]: ...
    def constants(self, *names: str) -> tuple[ConstantInfo, ...]: ...
    def swap_constants(
        self, weights: Any, *, prefix: str = "", sha256: str | None = None
    ) -> int: ...
    @overload
    def preload(
        self,
        *names: str,
        require: bool = False,
        threads: int | None = None,
        prime: bool | Literal["once"] = False,
        wait: Literal[True] = True,
    ) -> int: ...
    @overload
    def preload(
        self,
        *names: str,
        require: bool = False,
        threads: int | None = None,
        prime: bool | Literal["once"] = False,
        wait: Literal[False],
    ) -> Preloading: ...
    def ready(self, *names: str) -> Readiness: ...
    def place(self, tree: Any) -> Any: ...
    def explain(self, name: str, /, *args: Any, **kwargs: Any) -> Explanation: ...
    def signatures(self, name: str) -> tuple[SignatureInfo, ...]: ...
    def sizes(self, name: str, dim: str) -> tuple[int, ...]: ...
    def bucket(self, name: str, /, **wanted: int) -> dict[str, int]: ...
    def stats(self) -> dict[str, Any]: ...
    def count_calls(self) -> None: ...
    def close(self) -> None: ...
