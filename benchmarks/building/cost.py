"""A build from nothing, beside `jax.jit(f).lower(…).compile()` of the same signatures.

Two projects: a small chat model of 8 layers with 12 signatures, and 16 functions of four lines.
Each round builds a project without a store, once more without golden outputs, and compiles the same
in one process with jax alone, imports included. CPU time is that of all processes; ratios are the
medians of the pairs'.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from benchmarks.building.pairs import Ratio, cpu_ratio, taken, variables, wall_ratio
from benchmarks.places import HERE

_CHAT = """
version: 1
package: chat
functions:
  prefill:
    call: chat.model:prefill
    args: [weights: {like: "chat.model:weights"}, tokens: "i32[batch,seq]"]
    dims: {batch: [1, 4], seq: [32, 64, 128]}
  decode:
    call: chat.model:decode
    args:
      - weights: {like: "chat.model:weights"}
      - cache: {like: "chat.model:cache", dims: [batch]}
      - token: i32[batch]
      - position: i32[]
    dims: {batch: [1, 2, 3, 4, 6, 8]}
"""
_CHAT_BY_JIT = """
import jax, jax.numpy as jnp
from chat import model
weights, of = model.weights(), jax.ShapeDtypeStruct
for batch in (1, 4):
    for seq in (32, 64, 128):
        jax.jit(model.prefill).lower(weights, of((batch, seq), jnp.int32)).compile()
for batch in (1, 2, 3, 4, 6, 8):
    rest = model.cache(batch), of((batch,), jnp.int32), of((), jnp.int32)
    jax.jit(model.decode).lower(weights, *rest).compile()
"""
_SMALL = 16
_SMALL_BY_JIT = f"""
import jax, jax.numpy as jnp
from small import model
for number in range({_SMALL}):
    of = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    jax.jit(getattr(model, f"f{{number}}")).lower(of).compile()
"""


def _write_chat(root: Path) -> None:
    shutil.copy(HERE / "models" / "chat.py", root / "chat" / "model.py")
    (root / "aot.yaml").write_text(_CHAT)


def _write_small(root: Path) -> None:
    source, entries = "import jax.numpy as jnp\n", "version: 1\npackage: small\nfunctions:\n"
    for number in range(_SMALL):
        source += f"\n\ndef f{number}(x):\n    y = jnp.sin(x) + {number}\n    return y @ x\n"
        entries += f'  f{number}: {{call: "small.model:f{number}", args: [x: "f32[8,8]"]}}\n'
    (root / "small" / "model.py").write_text(source)
    (root / "aot.yaml").write_text(entries)


def _write_bare(root: Path) -> None:
    """Write the manifest of a project once more, without golden outputs."""
    manifest = yaml.safe_load((root / "aot.yaml").read_text())
    for function in manifest["functions"].values():
        function["verify"] = {"golden": "never"}
    (root / "bare.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))


_PROJECTS = {"chat": (_write_chat, _CHAT_BY_JIT), "small": (_write_small, _SMALL_BY_JIT)}


def measure(quick: bool) -> dict[str, Any]:
    """Build both projects, and compile the same with jax alone, in turns."""
    row: dict[str, Any] = {}
    for name, (write, by_jit) in _PROJECTS.items():
        with tempfile.TemporaryDirectory() as folder, variables(AOTBUILD_STORE="off"):
            root = Path(folder)
            (root / name).mkdir()
            (root / name / "__init__.py").touch()
            write(root)
            _write_bare(root)
            build = [sys.executable, "-m", "aotbuild.cli", "build", "--out"]
            jit = [sys.executable, "-c", by_jit]
            rounds = [
                (
                    taken([*build, f"out{number}", "aot.yaml"], root),
                    taken([*build, f"bare{number}", "bare.yaml"], root),
                    taken(jit, root),
                )
                for number in range(1 if quick else 5)
            ]
        pairs = [(ours, theirs) for ours, _, theirs in rounds]
        row[f"{name}_cpu_s"] = median(ours.cpu for ours, _ in pairs)
        row[f"{name}_jit_cpu_s"] = median(theirs.cpu for _, theirs in pairs)
        row[f"{name}_cpu_ratio"] = asdict(cpu_ratio(pairs))
        row[f"{name}_wall_ratio"] = asdict(wall_ratio(pairs))
        bare = [(ours, theirs) for _, ours, theirs in rounds]
        row[f"{name}_bare_cpu_ratio"] = asdict(cpu_ratio(bare))
        row[f"{name}_bare_wall_ratio"] = asdict(wall_ratio(bare))
    return row


def describe(row: dict[str, Any]) -> str:
    """Return what was measured, for people."""
    return "\n".join(
        f"{name}: CPU {row[f'{name}_cpu_s']:.1f} s, jax alone {row[f'{name}_jit_cpu_s']:.1f} s; "
        f"ratio {Ratio(**row[f'{name}_cpu_ratio'])}, "
        f"of wall time {Ratio(**row[f'{name}_wall_ratio'])}; without golden outputs "
        f"{Ratio(**row[f'{name}_bare_cpu_ratio'])} and {Ratio(**row[f'{name}_bare_wall_ratio'])}"
        for name in _PROJECTS
    )
