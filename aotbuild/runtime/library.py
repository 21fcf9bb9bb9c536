"""Libraries: the precompiled functions of one package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, overload

from aotbuild.errors import (
    AotbuildError,
    InvalidArgument,
    MissingJax,
    NoExecutable,
    UnknownFunction,
)
from aotbuild.frozen import dataclass
from aotbuild.runtime.concurrency import Once
from aotbuild.runtime.forked import refusal
from aotbuild.runtime.host import Host
from aotbuild.runtime.opening import Opening
from aotbuild.runtime.select import Verdict, select
from aotbuild.runtime.source import Source
from aotbuild.runtime.trust import Key
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function

if TYPE_CHECKING:
    from aotbuild.runtime.devices import Scope
    from aotbuild.runtime.kernel import Kernel, Package
    from aotbuild.runtime.preload import Job, Preloading, Told


@dataclass(frozen=True)
class Explanation:
    """What a call would do, and why.

    `chosen` is the record that would run; without one, `error` is what the call would raise if its
    fallback is none. `padded` says how the call is padded for it, as `batch 3 → 8`, or is empty.
    """

    function: str
    verdicts: tuple[Verdict, ...]
    chosen: Record | None
    error: AotbuildError | None = None
    padded: str = ""

    def __str__(self) -> str:
        verdicts = [f"  {verdict}" for verdict in self.verdicts]
        if self.error is None:
            padded = f", padded {self.padded}" if self.padded else ""
            return "\n".join([f"{self.function}: runs {self.chosen}{padded}", *verdicts])
        text = str(self.error)
        hidden = isinstance(self.error, NoExecutable) and any(v not in text for v in verdicts)
        # The error says once what is refused for one reason; here is each of them.
        return "\n".join([text, "all verdicts:", *verdicts]) if hidden else text


class Library:
    """The functions of a package as attributes.

    `trust` is as in `aotbuild.load`, and `package` the name that was asked for, if one was.
    `arrays` is the door. `host` probes the devices that a call may use (a `Scope`) instead of it;
    tests give a fake one.
    """

    _scope: Scope | None = None

    def __init__(
        self,
        source: Source,
        *,
        fallback: str | None = None,
        trust: Sequence[Key] | None = None,
        package: str | None = None,
        host: Callable[[Any], Host] | None = None,
        arrays: str = "jax",
    ) -> None:
        self._opening = Opening(source, fallback, trust, package, host, arrays)
        self._kernels: Once[Kernel] = Once()

    def open(self) -> None:
        """Open the index now rather than at the first use; raises what is wrong with it."""
        header = self._opening.index.header
        if self._opening.arrays == "jax" and not _is_installed("jax"):
            raise MissingJax(self._opening.name, str(header.get("jax", "")))

    def on(self, where: Any) -> Library:
        """Return this library on a device, on several, or on those of a Mesh or a Sharding.

        Calls without committed arguments run there, and their results stay there; of several
        devices a call takes the first ones that it needs, in this order. Committed arguments that
        are elsewhere raise InvalidArgument. Everything loaded is shared; asking again for the same
        devices gives the same library. AotbuildError if `where` is none of this.
        """
        asked = self._opening.asked_views
        with suppress(KeyError, TypeError):  # a list cannot be looked up
            known: Library = asked[where]
            return known
        scope = self._opening.door.scope_on(where)
        view: Library = self._opening.views.get(scope, lambda: View(self._opening, scope))
        with suppress(TypeError):
            asked[where] = view
        return view

    def __repr__(self) -> str:
        return f"<aotbuild.Library {self._opening.name} at {self._opening.source.place}>"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.functions})

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("__"):
            raise AttributeError(name)
        kernel = self.kernel(name)
        self.__dict__[name] = kernel
        return kernel

    def kernel(self, name: str, source: Callable[..., Any] | None = None) -> Kernel:
        """Return the kernel of a function; `source` is what it falls back to, if given."""
        return self._kernels.get((name, source), lambda: self._make_kernel(name, source))

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """The names of all functions, sorted."""
        return tuple(sorted(function.name for function in self._opening.index.functions()))

    @overload
    def preload(
        self,
        *names: str,
        threads: int | None = None,
        prime: bool = False,
        wait: Literal[True] = True,
    ) -> int: ...

    @overload
    def preload(
        self,
        *names: str,
        threads: int | None = None,
        prime: bool = False,
        wait: Literal[False],
    ) -> Preloading: ...

    def preload(
        self,
        *names: str,
        threads: int | None = None,
        prime: bool = False,
        wait: bool = True,
    ) -> int | Preloading:
        """Load every executable that fits this host; return how many were new.

        They are loaded onto the devices that a call without committed arguments takes. With `prime`
        each is run once on zeros, so that a first call costs what the later ones do. Without `wait`
        a thread does it while the caller goes on, and what is returned can be waited for.
        """
        from aotbuild.runtime.preload import preload

        chosen = tuple(map(self._checked, names)) or self.functions
        jobs = [job for name in chosen for job in self._fitting(name)]
        told = self._told(chosen) if prime else None
        opening, settings = self._opening, self._opening.door.settings()
        loader = self._package.loader
        if wait:
            return preload(loader, jobs, opening.stats, threads, told, settings=settings)

        def work(goes_on: Callable[[], bool]) -> int:
            with settings():
                return preload(
                    loader, jobs, opening.stats, threads, told, settings=settings, goes_on=goes_on
                )

        return opening.in_background(work)

    def _told(self, names: Sequence[str]) -> Told:
        """Return what tells the kernels of functions, which it makes, what was run."""
        kernels = {name: self.kernel(name) for name in names}
        return lambda record, *ran: kernels[record.function].prime(record, *ran)

    def explain(self, name: str, *args: Any, **kwargs: Any) -> Explanation:
        """Explain what a call of a function would do; loads and runs nothing."""
        kernel, verdicts = self.kernel(name), tuple[Verdict, ...]()
        try:
            call, verdicts = kernel.judge(*args, **kwargs)
            padded, chosen = kernel.padding(call), kernel.choose(call, verdicts)
        except (NoExecutable, InvalidArgument) as err:
            return Explanation(name, verdicts, None, err)
        if error := refusal(chosen):
            return Explanation(name, verdicts, None, error)
        return Explanation(name, verdicts, chosen, padded=padded)

    def stats(self) -> dict[str, Any]:
        """Return counters and times (in seconds) since the library was opened, as plain data."""
        functions = len(self.functions)
        executables = self._opening.index.row_count - functions
        counters = self._opening.stats.to_dict()
        return {"functions": functions, "executables": executables, **counters}

    def close(self) -> None:
        """Forget what was loaded and close the source; kernels in use keep their executables."""
        for name in self._kernels_by_name():
            self.__dict__.pop(name, None)
        self._kernels.clear()
        self._opening.close()

    @property
    def _package(self) -> Package:
        return self._opening.package

    def _make_kernel(self, name: str, source: Callable[..., Any] | None) -> Kernel:
        from aotbuild.runtime.kernel import Kernel

        return Kernel(self._package, self._function(name), source, self._scope)

    def _checked(self, name: str) -> str:
        return self._function(name).name

    def _function(self, name: str) -> Function:
        function = self._opening.index.function(name)
        if function is None:
            from difflib import get_close_matches

            close = get_close_matches(name, self.functions, 1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise UnknownFunction(self._opening.name, name, self.functions, hint)
        return function

    def _fitting(self, name: str) -> list[Job]:
        """Return the best executable of each signature that fits, and where it is loaded."""
        from aotbuild.runtime.preload import Job

        door, package = self._opening.door, self._package
        scope = self._scope or door.scope()
        verdicts = select(package.index.records(name), package.probe(scope))
        best: dict[str, Verdict] = {}
        for verdict in verdicts:
            if verdict.fits:
                best.setdefault(verdict.record.signature.key(), verdict)
        return [Job(found, door.place_alone(found.record, scope)) for found in best.values()]

    def _kernels_by_name(self) -> list[str]:
        # A copy: another thread may make a kernel meanwhile.
        return [
            name for name in [*self.__dict__] if not name.startswith("_") and name != "functions"
        ]


def _is_installed(package: str) -> bool:
    from importlib.util import find_spec

    return find_spec(package) is not None


class View(Library):
    """A library on devices that a caller chose; everything but its kernels is shared."""

    _scope: Scope

    def __init__(self, opening: Opening, scope: Scope) -> None:
        self._opening = opening
        self._kernels = Once()
        self._scope = scope

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]} on {', '.join(map(str, self._scope.everywhere))}>"
