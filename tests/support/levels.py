"""ISA levels that this machine can build for with any supported jax."""

from __future__ import annotations

from importlib.metadata import version

from aotbuild.platforms.cpu import host
from aotbuild.platforms.cpu.checks import LEVELS
from aotbuild.platforms.cpu.describe import cross_compiles

# Beside x86-64-v3. jax 0.10.2 compiles for no level above the machine's own; jaxlib 0.12 compiles
# for any, and needs more than x86-64-v2+avx has.
HAS_V4 = LEVELS["x86-64-v4"].features <= host.features()
OTHER_LEVEL = "x86-64-v4" if HAS_V4 or cross_compiles(version("jaxlib")) else "x86-64-v2+avx"
