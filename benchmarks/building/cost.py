"""A build from nothing, beside `jax.jit(f).lower(…).compile()` of the same signatures.

Two projects: a small chat model of 8 layers with 12 signatures, and 16 functions of four lines.
Each round builds a project without a store, and once more without golden outputs. It compiles the
same with jax alone (`signatures.py`), imports included: in one process, and as the least that a
build can do. CPU time is that of all processes; ratios are the medians of the pairs', over the one
process.
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

from benchmarks.building.pairs import Ratio, Taken, cpu_ratio, taken, variables, wall_ratio
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
_CHAT_SIGNATURES = """
import jax, jax.numpy as jnp
NUMBER, of = 12, jax.ShapeDtypeStruct
def signature(number):
    from chat import model
    if number < 6:
        rest = of(((1, 4)[number // 3], (32, 64, 128)[number % 3]), jnp.int32),
        return model.prefill, (model.weights(), *rest), number == 0
    batch = (1, 2, 3, 4, 6, 8)[number - 6]
    rest = model.cache(batch), of((batch,), jnp.int32), of((), jnp.int32)
    return model.decode, (model.weights(), *rest), number == 6
"""
_SMALL = 16
_SMALL_SIGNATURES = f"""
import jax
NUMBER = {_SMALL}
def signature(number):
    from small import model
    return getattr(model, f"f{{number}}"), (jax.ShapeDtypeStruct((8, 8), "float32"),), True
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


_PROJECTS = {"chat": (_write_chat, _CHAT_SIGNATURES), "small": (_write_small, _SMALL_SIGNATURES)}


def measure(quick: bool) -> dict[str, Any]:
    """Build both projects, and compile the same with jax alone, in turns."""
    row: dict[str, Any] = {}
    for name, (write, signatures) in _PROJECTS.items():
        with tempfile.TemporaryDirectory() as folder, variables(AOTBUILD_STORE="off"):
            root = Path(folder)
            (root / name).mkdir()
            (root / name / "__init__.py").touch()
            write(root)
            _write_bare(root)
            (root / "signatures.py").write_text(signatures)
            rounds = [_round(root, str(number)) for number in range(1 if quick else 5)]
        row[f"{name}_cpu_s"] = median(each["build"].cpu for each in rounds)
        row[f"{name}_jit_cpu_s"] = median(each["jit"].cpu for each in rounds)
        for way, prefix in {"build": "", "bare": "bare_", "floor": "floor_"}.items():
            pairs = [(each[way], each["jit"]) for each in rounds]
            row[f"{name}_{prefix}cpu_ratio"] = asdict(cpu_ratio(pairs))
            row[f"{name}_{prefix}wall_ratio"] = asdict(wall_ratio(pairs))
    return row


def _round(root: Path, number: str) -> dict[str, Taken]:
    """Return what each way takes, in this order."""
    build = [sys.executable, "-m", "aotbuild.cli", "build", "--out"]
    alone = [sys.executable, str(HERE / "building" / "signatures.py"), "signatures.py"]
    return {
        "build": taken([*build, f"out{number}", "aot.yaml"], root),
        "floor": taken([*alone, "floor"], root),
        "bare": taken([*build, f"bare{number}", "bare.yaml"], root),
        "jit": taken([*alone, "jit"], root),
    }


def describe(row: dict[str, Any]) -> str:
    """Return what was measured, for people."""

    def ratios(prefix: str) -> str:
        both = (Ratio(**row[f"{prefix}{of}_ratio"]) for of in ("cpu", "wall"))
        return " of the CPU time, ".join(map(str, both)) + " of the time"

    return "\n".join(
        f"{name}: CPU {row[f'{name}_cpu_s']:.1f} s, jax alone {row[f'{name}_jit_cpu_s']:.1f} s; "
        f"{ratios(f'{name}_')}\n  without golden outputs: {ratios(f'{name}_bare_')}\n"
        f"  the floor: {ratios(f'{name}_floor_')}"
        for name in _PROJECTS
    )
