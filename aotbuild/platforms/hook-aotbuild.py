# ruff: noqa: N999 - PyInstaller looks for this name
"""PyInstaller runs this for programs that import aotbuild: what it cannot see is bundled, too.

That is the platforms' parts and jaxlib's kernels, which the loader imports by name, and the
executables of all installed packages, with the metadata of their distributions. Tried with 6.22.
"""

from importlib.metadata import distributions
from pathlib import Path

from PyInstaller.utils.hooks import collect_submodules, copy_metadata  # type: ignore[import-untyped, unused-ignore]

PARTS = ("host", "checks", "client")


def _is_needed(name: str) -> bool:
    """Return whether a module of a platform is a package, or a part that the runtime imports."""
    return name.count(".") < 3 or name.rpartition(".")[2] in PARTS


hiddenimports = collect_submodules("aotbuild.platforms", filter=_is_needed)
hiddenimports += collect_submodules("jaxlib.cpu")
# jaxlib's C++ imports them for LAPACK.
hiddenimports += ["scipy.linalg.cython_blas", "scipy.linalg.cython_lapack"]
datas = []
for distribution in distributions():
    files = [file for file in distribution.files or () if "_aot" in file.parts[:-1]]
    datas += [(str(distribution.locate_file(file)), str(Path(file).parent)) for file in files]
    if files:
        datas += copy_metadata(distribution.name)
