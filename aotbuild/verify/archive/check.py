"""The checks of a wheel as an archive: before anything in it is believed."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from aotbuild.verify.archive.member_names import name_problems
from aotbuild.verify.archive.wheel_record import dist_info_problems, record_problems
from aotbuild.verify.archive.zip_layout import Limits, layout_problems, member_problems
from aotbuild.verify.outcome import Outcome, concluded, not_checked

CHECKS = ("zip", "members", "names", "dist-info", "RECORD")
_SHOWN = 20


def check_archive(wheel: Path, limits: Limits) -> tuple[Outcome, ...]:
    """Check a wheel's zip, names, `.dist-info` and RECORD; OSError if it cannot be opened."""
    with wheel.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return tuple(_check(archive, wheel, limits))
        except (zipfile.BadZipFile, NotImplementedError, ValueError, UnicodeError) as err:
            return (_concluded("zip", wheel, [f"not a zip file that can be read: {err}"]),)


def _check(archive: zipfile.ZipFile, wheel: Path, limits: Limits) -> Iterator[Outcome]:
    file = archive.fp
    assert file is not None
    yield (layout := _concluded("zip", wheel, layout_problems(file, archive)))
    yield (members := _concluded("members", wheel, member_problems(archive, limits)))
    yield (names := _concluded("names", wheel, name_problems(archive.infolist())))
    yield (info := _concluded("dist-info", wheel, dist_info_problems(archive, wheel)))
    failed = [o.check for o in (layout, members, names, info) if o.status.is_failure]
    if failed:
        yield not_checked("RECORD", wheel.name, f"the check {failed[0]} failed, nothing is read")
    else:
        yield _concluded("RECORD", wheel, record_problems(archive))


def _concluded(check: str, wheel: Path, problems: Iterable[str]) -> Outcome:
    """Return the outcome with the first problems: an attack may make a million."""
    problems = list(problems)
    if len(problems) > _SHOWN:
        problems = [*problems[:_SHOWN], f"and {len(problems) - _SHOWN} more"]
    return concluded(check, wheel.name, problems)
