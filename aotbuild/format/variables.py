"""Every environment variable of aotbuild, and what it does."""

from __future__ import annotations

# Read where something is built.
OF_BUILDS = {
    "AOTBUILD_MANIFEST": "the manifest of the build hook, instead of that in pyproject.toml",
    "AOTBUILD_JOBS": "how many compilers work side by side; default: one for each CPU",
    "AOTBUILD_TIMEOUT": "seconds that one job may take; default: 3600",
    "AOTBUILD_EXECUTOR": "where they work: local, or dask://HOST:PORT",
    "AOTBUILD_STORE": "the folder or URL of the store, or off",
    "AOTBUILD_TOOLCHAINS": "the folder of the environments that uv makes",
    "AOTBUILD_SHRINK": "off: CPU executables stay as XLA wrote them (worker.thunk_rewrite)",
}
# Read where executables are loaded and called, and by the command line.
OF_CALLS = {
    "AOTBUILD_FALLBACK": "none, portable or jit: what a call without an executable does",
    "AOTBUILD_GUARD": "raise, log or count: what a compilation does in the whole process",
    "AOTBUILD_DEBUG": "1: commands show the traceback of an error",
}
# Set by aotbuild for the processes that it starts.
INTERNAL = {
    "AOTBUILD_BUILDING": "1 in compilers: decorated functions call their source",
    "AOTBUILD_RECORD": "the call log of watched processes, and what checks their calls",
}
