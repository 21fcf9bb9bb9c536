"""Where the file of kept stages goes when a wheel is made."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from aotbuild.format.files import move_whole, naming
from aotbuild.format.layout import stages_path
from aotbuild.format.temporary import temporary_folder
from hatch_aotbuild.options import STAGES, chosen_folder

# pip sets this variable for its child processes, and keeps nothing but the wheel.
_PIP = "PIP_BUILD_TRACKER"


def put_stages(
    file: Path, wheel: Path, project: Path, environment: Mapping[str, str]
) -> Path | None:
    """Copy a file of kept stages to its final place and return that; None if there is no file.

    The place is the folder of AOTBUILD_STAGES, else the wheel's folder. Under pip, which removes
    the wheel's folder, it is `dist` of the project. A file of an earlier build is removed.
    """
    stages_path(wheel).unlink(missing_ok=True)
    if not file.exists():
        return None
    usual = project / "dist" if environment.get(_PIP) else wheel.parent
    folder = chosen_folder(environment, STAGES) or usual
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / stages_path(wheel).name
    with naming(place), temporary_folder(folder) as temporary:
        move_whole(Path(shutil.copyfile(file, temporary / place.name)), place)
    return place
