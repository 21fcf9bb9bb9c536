"""Where the hook puts the file of kept stages: beside the wheel, if the wheel stays where it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aotbuild.errors import PlanError
from aotbuild.spec.files import write_whole
from aotbuild.spec.stages import stages_path

VARIABLE = "AOTBUILD_STAGES"
# pip sets it in all that it starts. It takes nothing but the wheel out of the folder it gives.
_PIP = "PIP_BUILD_TRACKER"


def chosen_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder that AOTBUILD_STAGES names, if it does; PlanError if it is relative."""
    chosen = environment.get(VARIABLE)
    if chosen and not Path(chosen).is_absolute():
        msg = (
            f"the environment variable {VARIABLE}: expected an absolute path, found {chosen!r}; "
            "builds run in folders of their own"
        )
        raise PlanError(msg)
    return Path(chosen) if chosen else None


def put_stages(
    file: Path, wheel: Path, project: Path, environment: Mapping[str, str]
) -> Path | None:
    """Copy a file of kept stages to where people find it, and return that; None without a file.

    That is the folder of AOTBUILD_STAGES, else the wheel's, or `dist` of the project where pip
    would throw the wheel's away. A file of an earlier build beside the wheel goes.
    """
    stages_path(wheel).unlink(missing_ok=True)
    if not file.exists():
        return None
    usual = project / "dist" if environment.get(_PIP) else wheel.parent
    folder = chosen_folder(environment) or usual
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / stages_path(wheel).name
    write_whole(place, file.read_bytes())
    return place
