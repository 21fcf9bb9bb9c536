"""The first code of a worker and of its children, run as a script by a toolchain's interpreter.

It imports aotbuild from the build's folder, whose parent is not on sys.path: another jax may be
there. Its first argument is JSON: `aotbuild` (the folder of the package), `path` (entries of
sys.path), `whole` (whether they replace sys.path, or come before the interpreter's own) and
`module` (whose `main` is called).
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path


def start() -> None:
    """Set sys.path, import aotbuild, and call the `main` of a module."""
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
    import_module(given["module"]).main()


if __name__ == "__main__":
    start()
