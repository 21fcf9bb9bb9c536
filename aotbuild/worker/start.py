"""The first code of a worker, run as a script by the interpreter of its toolchain.

It imports aotbuild from the build's folder, whose parent is not on sys.path: another jax may be
there. Its one argument is JSON: `aotbuild` (the folder of the package), `path` (entries of
sys.path) and `whole` (whether they replace sys.path, or come before the interpreter's own).
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
    # Only now can it be found.
    from aotbuild.worker.main import main

    main()


if __name__ == "__main__":
    start()
