"""A package that is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support import packages
from support.shared import made_once, run_folder


def package(factory: pytest.TempPathFactory) -> Path:
    """Return the `_aot` folder of a package whose one function is `double`."""

    def make(folder: Path) -> None:
        given = {"x": np.ones(16, np.float32)}
        packages.write(folder, [packages.build("double", lambda x: x * 2, given)])

    return made_once(run_folder(factory) / "honest", make) / "_aot"
