"""The process that writes entries: it imports jax and the package's source, and lowers functions.

It is asked {"package", "folder", "known_as", "functions", "committed", "like", "overwrite"}, and
answers with the fields of `export.Exported`, or with {"refused": text}.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import jax

from aotbuild.errors import AotbuildError
from aotbuild.jax_cache.arguments import NotExportable
from aotbuild.jax_cache.entries import link_entries, write_entry
from aotbuild.jax_cache.export import WHAT_STAYS, Entry, Exported
from aotbuild.jax_cache.facts import facts, notes, refuse_settings
from aotbuild.jax_cache.packaged import packaged_program
from aotbuild.jax_cache.plain import Committed, keys
from aotbuild.jax_cache.source import settings_of, source_of
from aotbuild.runtime.blobs import read_blob
from aotbuild.runtime.devices import devices_for
from aotbuild.runtime.fitting import label_of
from aotbuild.runtime.imports import import_named
from aotbuild.runtime.locate import locate, package_name
from aotbuild.runtime.select import Verdict, judge
from aotbuild.runtime.source import reason_of
from aotbuild.runtime.state import LibraryState
from aotbuild.spec.record import Record
from aotbuild.verify.fresh import answer
from aotbuild.worker import private as jax_private


def main() -> None:
    """Write the entries of a package."""
    answer(_export)


def _export(asked: dict[str, Any]) -> dict[str, Any]:
    folder = Path(asked["folder"])
    try:
        # What this process compiles, as constants of the source, is none of the package's.
        jax.config.update("jax_compilation_cache_dir", None)
        refuse_settings()
        folder.mkdir(parents=True, exist_ok=True)
        place = asked["package"]
        state = LibraryState(locate(place), None, None, package_name(place), None, "jax")
        with closing(state):
            options = asked["known_as"], asked["committed"], asked["like"]
            exporter = Exporter(state, folder, *options, overwrite=asked["overwrite"])
            entries = [each for name in asked["functions"] for each in exporter.export(name)]
    except AotbuildError as err:
        return {"refused": str(err)}
    except OSError as err:
        problem = f"{err.filename or folder}: cannot be written: {reason_of(err)}"
        return {"refused": f"{problem}\n{WHAT_STAYS}"}
    return Exported(facts(asked["known_as"]), notes(entries), tuple(entries)).to_json()


class Exporter:
    """Writes the entries of one package for the devices of this process.

    `known_as` is the path by which programs name the folder.
    """

    def __init__(
        self,
        state: LibraryState,
        folder: Path,
        known_as: str,
        committed: Sequence[Sequence[str]],
        like: Mapping[str, str],
        *,
        overwrite: bool,
    ) -> None:
        self._state, self._folder, self._overwrite = state, folder, overwrite
        self._committed = [frozenset(names) for names in committed]
        self._like, self._known_as = like, known_as
        self._devices = state.backend.default_devices()

    def export(self, name: str) -> Iterator[Entry]:
        """Write the entries of a function; yield what became of each signature."""
        records = [r for r in self._state.index.records(name) if not r.target.is_portable]
        if not records:
            yield Entry(name, name, reason="the package has only a portable form of it")
        # It may register custom calls, which a host must have. If it fails, `source_of` says so.
        with suppress(Exception):
            import_named(self._state.function(name).call, self._state.imports)
        host = self._state.package.probe(self._devices)
        for _, group in groupby(records, lambda record: record.signature.key()):
            # The x64 mode of this process is no reason: that of the record is set.
            verdicts = [judge(each, replace(host, x64=each.requires.x64)) for each in group]
            yield self._export(max(verdicts, key=lambda verdict: verdict.grade), verdicts)

    def _export(self, best: Verdict, verdicts: Sequence[Verdict]) -> Entry:
        record, label = best.record, label_of(best.record)
        if not best.fits:
            reasons = (f"{v.record.target}: {'; '.join(v.reasons)}" for v in verdicts)
            return Entry(record.function, label, reason=f"refused here: {'; '.join(reasons)}")
        try:
            with settings_of(record):
                return self._write(record, label)
        except NotExportable as err:
            reason = str(err)
        except (AotbuildError, OSError):
            raise
        except Exception as err:  # noqa: BLE001 (the other functions need not suffer for it)
            reason = f"jax raised {type(err).__name__}: {err}"
        return Entry(record.function, label, reason=reason)

    def _write(self, record: Record, label: str) -> Entry:
        function = self._state.function(record.function)
        devices = devices_for(record.requires, self._devices)
        source = source_of(record, function, devices, self._like, self._state.imports)
        packaged = packaged_program(source)
        combinations = self._combinations(source.arguments_of_leaves())
        found = keys(source, packaged, combinations, self._known_as)
        data = read_blob(self._state.opened.source, record.blob)
        entry = jax_private.cache_entry(data, 0)
        written = [
            key for key in found if write_entry(self._folder, key, entry, overwrite=self._overwrite)
        ]
        link_entries(self._folder, written)
        kept = tuple(key for key in found if key not in written)
        settings = record.provenance.get("config", {})
        return Entry(record.function, label, tuple(written), kept, settings=settings)

    def _combinations(self, names: Sequence[str]) -> list[Committed]:
        """Return the sets of arguments that are committed: none, all, and those that were asked."""
        return [*dict.fromkeys([frozenset[str](), frozenset(names), *self._committed])]
