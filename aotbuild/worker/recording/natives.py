"""Libraries that open the files they are told by native code, which no hook sees.

A job that may use one is traced every time. It may if a module of the user's imports such a
library, or another one that has imported it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping

READERS = frozenset(
    {
        *("adios2", "array_record", "av", "cantera", "catboost", "cffi", "cv2", "dbm"),
        *("decord", "duckdb", "eccodes", "faiss", "fiona", "fitsio", "gmsh", "h5py", "igl", "itk"),
        *("keras", "lance", "lightgbm", "lmdb", "lxml", "MDAnalysis", "mdtraj", "mujoco"),
        *("netCDF4", "onnxruntime", "open3d", "orbax", "osgeo", "pinocchio", "polars", "pxr"),
        *("pyarrow", "pybullet", "pygrib", "pymeshlab", "pyogrio", "pyreadstat", "rasterio"),
        *("rdkit", "ROOT", "safetensors", "scipy.io"),
        *("sentencepiece", "shelve", "SimpleITK", "soundfile", "tables", "tensorflow"),
        *("tensorstore", "tiledb", "tokenizers", "torch", "transformers", "vtk", "xgboost"),
        "zarr",
    }
)
# They have other readers, too: what they load for native ones.
_IF_LOADED = {"scipy.io": "scipy.io._fast_matrix_market._fmm_core"}
# Who imports them for something else, and opens files for them in Python.
_HARMLESS = frozenset({("pandas", "pyarrow")})


def leading_to_readers(edges: Mapping[str, set[str]]) -> dict[str, str]:
    """Return the reader that each module leads to, of those that lead to one.

    `edges` says what each module of a library imports.
    """
    importers: dict[str, set[str]] = defaultdict(set)
    for importer, names in edges.items():
        for name in names:
            for each in with_parents(name):
                importers[each].add(importer)
    loaded = READERS & sys.modules.keys()
    found = {name: name for name in loaded if _IF_LOADED.get(name, name) in sys.modules}
    waiting = [*found]
    while waiting:
        name = waiting.pop()
        for importer in importers[name]:
            is_harmless = (importer.partition(".")[0], found[name]) in _HARMLESS
            if importer not in found and not is_harmless:
                found[importer] = found[name]
                waiting.append(importer)
    return found


def with_parents(name: str) -> Iterator[str]:
    """Yield a module's name, and those of the packages that it is in."""
    while name:
        yield name
        name = name.rpartition(".")[0]
