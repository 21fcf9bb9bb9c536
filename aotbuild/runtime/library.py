"""Libraries: the precompiled functions of one package."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aotbuild.errors import (
    AotbuildError,
    InvalidArgument,
    MissingJax,
    NoExecutable,
    UnknownFunction,
)
from aotbuild.runtime.host import Host, probe
from aotbuild.runtime.once import Once
from aotbuild.runtime.select import Verdict, select
from aotbuild.runtime.source import Source
from aotbuild.runtime.stats import Stats
from aotbuild.runtime.trust import Key, open_trusted
from aotbuild.spec.function import Function
from aotbuild.spec.index import Index
from aotbuild.spec.record import Record

if TYPE_CHECKING:
    from aotbuild.runtime.kernel import Kernel, Package


@dataclass(frozen=True)
class Explanation:
    """What a call would do, and why.

    `chosen` is the record that would run; without one, `error` is what the call would raise if its
    fallback is none.
    """

    function: str
    verdicts: tuple[Verdict, ...]
    chosen: Record | None
    error: AotbuildError | None = None

    def __str__(self) -> str:
        if self.error is not None:
            return str(self.error)
        lines = [f"{self.function}: runs {self.chosen}", *(f"  {v}" for v in self.verdicts)]
        return "\n".join(lines)


class Library:
    """The functions of a package as attributes.

    `trust` is as in `aotbuild.load`, and `package` the name that was asked for, if one was.
    `host` probes a platform (default: of the default device); tests give a fake one.
    """

    def __init__(
        self,
        source: Source,
        *,
        fallback: str | None = None,
        trust: Sequence[Key] | None = None,
        package: str | None = None,
        host: Callable[[str | None], Host] = probe,
    ) -> None:
        self._source = source
        self._fallback = fallback
        self._trust = trust
        self._asked = package
        self._probe = host
        self._stats = Stats()
        self._kernels: Once[Kernel] = Once()
        self._opened: Once[Any] = Once()

    def open(self) -> None:
        """Open the index now rather than at the first use; raises what is wrong with it."""
        header = self._index.header
        if importlib.util.find_spec("jax") is None:
            raise MissingJax(self._name, str(header.get("jax", "")))

    def __repr__(self) -> str:
        return f"<aotbuild.Library {self._name} at {self._source.place}>"

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
        return tuple(sorted(function.name for function in self._index.functions()))

    def preload(self, *names: str, threads: int | None = None) -> int:
        """Load every executable that fits this host onto the default devices; return how many."""
        fitting = [job for name in names or self.functions for job in self._fitting(name)]
        jobs = {(record.blob, devices): (record, devices) for record, devices in fitting}.values()
        load = self._package.loader.load_bytes
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(load, record, devices) for record, devices in jobs]
            return sum(future.result() for future in futures)

    def explain(self, name: str, *args: Any, **kwargs: Any) -> Explanation:
        """Explain what a call of a function would do; loads and runs nothing."""
        kernel, verdicts = self.kernel(name), tuple[Verdict, ...]()
        try:
            call, verdicts = kernel.judge(*args, **kwargs)
            chosen = kernel.choose(call, verdicts)
        except (NoExecutable, InvalidArgument) as err:
            return Explanation(name, verdicts, None, err)
        return Explanation(name, verdicts, chosen)

    def stats(self) -> dict[str, Any]:
        """Return counters and times (in seconds) since the library was opened, as plain data."""
        functions = len(self.functions)
        executables = self._index.row_count - functions
        return {"functions": functions, "executables": executables, **self._stats.to_dict()}

    def close(self) -> None:
        """Forget what was loaded and close the source; kernels in use keep their executables."""
        for name in list(self._kernels_by_name()):
            del self.__dict__[name]
        self._kernels.clear()
        if "package" in self._opened:
            self._package.loader.clear()
        self._source.close()

    @property
    def _index(self) -> Index:
        index: Index = self._opened.get("index", self._open_index)
        return index

    def _open_index(self) -> Index:
        return open_trusted(self._source, self._trust, self._asked)

    @property
    def _name(self) -> str:
        return str(self._index.header.get("package", self._source.place))

    @property
    def _package(self) -> Package:
        package: Package = self._opened.get("package", self._make_package)
        return package

    def _make_package(self) -> Package:
        from aotbuild.runtime.executable import Loader
        from aotbuild.runtime.fallback import Portable
        from aotbuild.runtime.kernel import Package

        return Package(
            name=self._name,
            index=self._index,
            loader=Loader(self._source, self._stats),
            portable=Portable(self._source, self._stats),
            stats=self._stats,
            probe=self._probe,
            fallback=self._fallback or self._index.header.get("fallback"),
        )

    def _make_kernel(self, name: str, source: Callable[..., Any] | None) -> Kernel:
        from aotbuild.runtime.kernel import Kernel

        return Kernel(self._package, self._function(name), source)

    def _function(self, name: str) -> Function:
        function = self._index.function(name)
        if function is None:
            close = get_close_matches(name, self.functions, 1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise UnknownFunction(self._name, name, self.functions, hint)
        return function

    def _fitting(self, name: str) -> list[tuple[Record, tuple[Any, ...]]]:
        """Return the best record of each signature that fits, and the devices it is loaded onto."""
        from aotbuild.runtime.placement import default_devices

        host = self._probe(None)
        verdicts = select(self._index.records(self._function(name).name), host)
        best: dict[str, Record] = {}
        for verdict in verdicts:
            if verdict.fits:
                best.setdefault(verdict.record.signature.key(), verdict.record)
        return [(r, default_devices(host.platform, r.requires.devices)) for r in best.values()]

    def _kernels_by_name(self) -> list[str]:
        return [name for name in self.__dict__ if not name.startswith("_") and name != "functions"]
