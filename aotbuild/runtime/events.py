"""Events: what a library does, as plain data. `aotbuild.subscribe` gives them to a function.

Imported only where somebody listens; see `runtime.observers`. A call that the C++ dispatch knows
passes no Python and makes no event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aotbuild.format.signature import Signature


@dataclass(frozen=True)
class Event:
    """What all events have.

    Attributes:
        package: The name of the package.
    """

    package: str

    @property
    def kind(self) -> str:
        """The name of the event: that of its type, in lower case."""
        return type(self).__name__.lower()


@dataclass(frozen=True)
class CallEvent(Event):
    """An event of one function.

    Attributes:
        function: The name of the function in the manifest.
        signature: The avals of all leaves and the static values, as `f32[8,128], causal=True`.
            Empty if the arguments have no signature.
        platform: Where it runs, as `cpu`. Empty if that was not decided.
    """

    function: str
    signature: str
    platform: str


@dataclass(frozen=True)
class Opened(Event):
    """An index was opened.

    Attributes:
        place: The path of the `_aot` folder, or of the wheel.
        arrays: `jax` or `numpy`.
        seconds: How long it took.
        digest: The identity of the package, as `Library.digest` returns it.
    """

    place: str
    arrays: str
    seconds: float
    digest: str


@dataclass(frozen=True)
class Loaded(CallEvent):
    """An executable was read, checked and given to XLA.

    Attributes:
        seconds: How long it took, without its hoisted constants.
        bytes: The size of the executable in the package.
    """

    seconds: float
    bytes: int


@dataclass(frozen=True)
class Refused(CallEvent):
    """No executable serves a call, or an executable that is needed cannot run here.

    A `Fallback` follows if the policy allows one; else the call raises.

    Attributes:
        error: The name of the error, as `SignatureMismatch`.
        reasons: The lines of the error, the summary first.
    """

    error: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Fallback(CallEvent):
    """A fallback served a call that no executable serves.

    Attributes:
        policy: `portable` or `jit`.
        seconds: How long it took until the fallback returned, with compiling.
        reasons: Why no executable serves the call.
    """

    policy: str
    seconds: float
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Compiled(CallEvent):
    """A portable executable was compiled for a signature.

    Attributes:
        seconds: How long the call took that compiled it.
        bytes: The size of the portable executable in the package.
    """

    seconds: float
    bytes: int


@dataclass(frozen=True)
class Padded(CallEvent):
    """A call ran the executable of a larger size.

    Attributes:
        sizes: What grew, as `batch 3 → 8`.
    """

    sizes: str


@dataclass(frozen=True)
class Transformed(CallEvent):
    """A call with tracers ran the source, inside `jax.grad`, `jax.vmap` and the like."""


@dataclass(frozen=True)
class Copied(CallEvent):
    """The numpy backend copied arguments that XLA cannot use where they are.

    Attributes:
        bytes: How many bytes were copied.
    """

    bytes: int


def describe(signature: Signature) -> str:
    """Return a signature as events name it."""
    statics = signature.describe_statics()
    return ", ".join([*map(str, signature.leaves), *([statics] if statics else [])])
