"""A wheel file as installers see it: RECORD against every file, and the name against METADATA."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

from installer.sources import WheelFile
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from aotbuild.format.dist_info import UNREADABLE
from aotbuild.format.files import open_zip
from aotbuild.verify.outcome import Outcome, concluded

CHECK = "wheel"
# Problems that are shown; a damaged wheel may have one for each of its files.
_SHOWN = 20


def check_wheel_file(wheel: Path) -> Outcome:
    """Read every file of a wheel and compare it with RECORD; OSError if the wheel can't be read."""
    try:
        with open_zip(wheel) as archive:
            problems = list(_problems(archive, wheel))
    except zipfile.BadZipFile as err:
        problems = [f"not a zip file that can be read: {err}"]
    if len(problems) > _SHOWN:
        problems = [*problems[:_SHOWN], f"and {len(problems) - _SHOWN} more"]
    return concluded(CHECK, wheel.name, problems)


def required(wheel: Path) -> list[str]:
    """Return the lines of Requires-Dist of a wheel that passed `check_wheel_file`."""
    with open_zip(wheel) as archive:
        text = WheelFile(archive).read_dist_info("METADATA")
    return HeaderParser().parsestr(text).get_all("Requires-Dist") or []


def _problems(archive: zipfile.ZipFile, wheel: Path) -> Iterator[str]:
    try:
        name, version, *_ = parse_wheel_filename(wheel.name)
        source = WheelFile(archive)
        source.validate_record()
        stated = HeaderParser().parsestr(source.read_dist_info("METADATA"))
        found = canonicalize_name(str(stated["Name"])), Version(str(stated["Version"]))
    except WheelFile.validation_error as err:
        yield from (issue.removeprefix(f"In {archive.filename}, ") for issue in err.issues)
    except (InvalidWheelFilename, InvalidVersion) as err:
        yield str(err)
    except UNREADABLE as err:
        yield f"it cannot be read: {err}"
    except NotImplementedError as err:  # a compression method that zipfile lacks
        yield f"it cannot be unpacked: {err}"
    else:
        if found != (name, version):
            had = f"{stated['Name']} {stated['Version']}"
            yield f"METADATA is not of {wheel.name}: expected {name} {version}, found {had}"
