"""The index of an editable install: its functions, and no executables.

The runtime finds it where a wheel's index would be, and calls the sources by jit.
"""

from __future__ import annotations

from aotbuild.format.dist_info import installed_version
from aotbuild.format.index import EDITABLE, write_index
from aotbuild.format.signature import Function
from aotbuild.manifest import Manifest


def editable_index(manifest: Manifest) -> bytes:
    """Return the bytes of an index without records, whose header says what jit has to be told."""
    functions = [
        Function(name, function.call, (), (), (), (), wrap=function.wrap or "")
        for name, function in manifest.functions.items()
    ]
    options = {
        name: {
            "static_argnums": [key for key in function.static if isinstance(key, int)],
            "static_argnames": [key for key in function.static if isinstance(key, str)],
        }
        for name, function in manifest.functions.items()
    }
    header = {
        "aotbuild": installed_version("aotbuild") or "",
        "fallback": "jit",
        "jax": "",
        "jaxlib": "",
        "package": manifest.package,
        EDITABLE: options,
    }
    return write_index(header, functions, [])
