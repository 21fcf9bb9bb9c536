"""The first code of a worker, run as a script by the interpreter of its toolchain.

aotbuild is taken from the place that the parent names, by itself: in the folder around it there may
be another jax. Its one argument is JSON: `aotbuild` (the folder of the package), `path` (entries of
sys.path) and `whole` (whether they are all of it, or come before the interpreter's own).
"""

from __future__ import annotations

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path


def start() -> None:
    """Set sys.path, import aotbuild, serve the parent."""
    given = json.loads(sys.argv[1])
    sys.path[:] = [*given["path"], *([] if given["whole"] else sys.path)]
    folder = Path(given["aotbuild"])
    spec = spec_from_file_location(
        "aotbuild", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None, "a file with this suffix has a spec"
    assert spec.loader is not None, "and the spec a loader"
    sys.modules["aotbuild"] = package = module_from_spec(spec)
    spec.loader.exec_module(package)
    _serve()


def _serve() -> None:
    from aotbuild.worker.main import main

    main()


if __name__ == "__main__":
    start()
