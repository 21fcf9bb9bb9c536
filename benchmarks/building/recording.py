"""What it costs to record what a job reads, for direct mode: two builds of a deep transformer.

One records and one doesn't; neither finds anything in the store. Compared are the CPU seconds of
this process and its workers, which depend less on what else the machine does.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from aotbuild.store.file_digests import DIGESTS
from benchmarks.building.projects import build, write_blocks, write_transformer


def measure(quick: bool) -> dict[str, Any]:
    """Build with and without, several times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = folder / "project"
        write_blocks(root, 1) if quick else write_transformer(root)
        first = _cpu(root, folder / "first", direct=True)
        rounds = []
        for number in range(2 if quick else 7):
            folders = [folder / f"{number}-off", folder / f"{number}-on"]
            for each in folders:
                # Only the first build of a machine reads all libraries to have their digests.
                (each / "store").mkdir(parents=True)
                shutil.copy(folder / "first" / "store" / DIGESTS, each / "store")
            rounds.append([_cpu(root, each, direct=each is folders[1]) for each in folders])
    return {
        "first_s": first,
        "plain_s": median(plain for plain, _ in rounds),
        "recording_s": median(recording for _, recording in rounds),
        "ratio": median(recording / plain for plain, recording in rounds) - 1,
    }


def describe(row: dict[str, Any]) -> str:
    """Return what was measured, for people."""
    return (
        f"a build takes {row['plain_s']:.2f} s of CPU time; with the record of what it reads, "
        f"{row['recording_s']:.2f} s ({row['ratio']:+.2%}); the first on a machine, "
        f"{row['first_s']:.2f} s"
    )


def _cpu(root: Path, folder: Path, *, direct: bool) -> float:
    before = os.times()
    build(root, folder / "_aot", folder / "store", jobs=1, direct=direct)
    return sum(os.times()[:4]) - sum(before[:4])
