"""Openings: what a library and its views on some devices share, each part made when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aotbuild.frozen import dataclass, field
from aotbuild.runtime.companions import Parts, open_parts
from aotbuild.runtime.concurrency import Once
from aotbuild.runtime.host import Host
from aotbuild.runtime.source import Source
from aotbuild.runtime.stats import Stats
from aotbuild.runtime.trust import Key, is_demanded
from aotbuild.spec.index import Index

if TYPE_CHECKING:
    from aotbuild.runtime.backends.protocol import Door
    from aotbuild.runtime.kernel import Package
    from aotbuild.runtime.preload import Preloading, Work


@dataclass(frozen=True)
class Opening:
    """One opened package. See `Library` for the fields.

    `views` are its libraries on devices, by scope; `asked_views` the same by what was asked for, so
    that `on` in a loop costs a lookup.
    """

    source: Source
    fallback: str | None
    trust: Sequence[Key] | None
    asked: str | None
    probe: Callable[[Any], Host] | None
    arrays: str
    stats: Stats = field(default_factory=Stats)
    views: Once[Any] = field(default_factory=Once)
    asked_views: dict[Any, Any] = field(default_factory=dict)
    _made: Once[Any] = field(default_factory=Once)
    _preloads: dict[Preloading, None] = field(default_factory=dict)

    @property
    def parts(self) -> Parts:
        """Where the files of the package and its companions are, and their index."""
        parts: Parts = self._made.get("parts", self._open_parts)
        return parts

    @property
    def index(self) -> Index:
        """The index; raises what is wrong with it."""
        return self.parts.index

    @property
    def name(self) -> str:
        """The package's own name, or where it is."""
        return str(self.index.header.get("package", self.source.place))

    @property
    def door(self) -> Door:
        """What calls executables. Imports jax, or numpy and jaxlib."""
        door: Door = self._made.get("door", self._make_door)
        return door

    @property
    def package(self) -> Package:
        """What all kernels share. Imports what the door does."""
        package: Package = self._made.get("package", self._make_package)
        return package

    def in_background(self, work: Work) -> Preloading:
        """Do something in a thread, which `close` ends."""
        from aotbuild.runtime.preload import Preloading

        for ended in [preloading for preloading in [*self._preloads] if preloading.done]:
            self._preloads.pop(ended, None)
        self._preloads[preloading := Preloading(work)] = None
        return preloading

    def close(self) -> None:
        """Forget what was loaded and close what is open."""
        for preloading in [*self._preloads]:
            preloading.stop()
            self._preloads.pop(preloading, None)
        self.views.clear()
        self.asked_views.clear()
        if "package" in self._made:
            self.package.loader.clear()
        opened = self.parts.source if "parts" in self._made else self.source
        opened.close()

    def _open_parts(self) -> Parts:
        return open_parts(self.source, self.trust, self.asked)

    def _make_door(self) -> Door:
        if self.arrays == "jax":
            from aotbuild.runtime.backends.jax.backend import JaxDoor

            return JaxDoor(self.parts.source, self.stats)
        from aotbuild.runtime.backends.numpy.backend import NumpyDoor

        return NumpyDoor()

    def _make_package(self) -> Package:
        from aotbuild.runtime.kernel import Package
        from aotbuild.runtime.loader import Loader

        return Package(
            name=self.name,
            index=self.index,
            door=self.door,
            loader=Loader(
                self.parts.source,
                self.stats,
                self.door.engine,
                # A signature is over what was read, and a mapped file can change afterwards.
                maps=not is_demanded(self.trust),
            ),
            stats=self.stats,
            probe=self.probe or self.door.probe,
            fallback=self.fallback or self.index.header.get("fallback"),
            absent=self.parts.absent,
        )
