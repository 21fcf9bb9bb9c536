"""ISA levels that this machine can build for with any supported jax."""

from __future__ import annotations

from aotbuild.platforms.cpu import host
from aotbuild.platforms.cpu.checks import LEVELS

# Beside x86-64-v3. jax 0.10.2 compiles for no level above the machine's own.
OTHER_LEVEL = "x86-64-v4" if LEVELS["x86-64-v4"].features <= host.features() else "x86-64-v2+avx"
