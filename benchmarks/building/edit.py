"""One edit in one of 50 functions, each in a module of its own: what is compiled again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.building.projects import build, module_source, write_modules


def measure(quick: bool) -> dict[str, Any]:
    """Build everything, nothing, and the one that was edited."""
    count = 5 if quick else 50
    with tempfile.TemporaryDirectory() as folder:
        root = write_modules(Path(folder, "project"), count)
        store = Path(folder, "store")
        whole = build(root, Path(folder, "whole", "_aot"), store)
        nothing = build(root, Path(folder, "nothing", "_aot"), store)
        edited = f"f{count // 2:02}"
        (root / "many" / f"{edited}.py").write_text(module_source(0.5))
        one = build(root, Path(folder, "one", "_aot"), store)
    others = [origin for name, origin in one.names.items() if name != edited]
    return {
        "functions": count,
        "compiled": one.counts["compiled"],
        "is_the_edited_one": one.names[edited] == "compiled" and set(others) == {"stored"},
        "whole_s": whole.seconds,
        "nothing_s": nothing.seconds,
        "one_s": one.seconds,
        "one_to_whole": one.seconds / whole.seconds,
    }


def describe(row: dict[str, Any]) -> str:
    """Return what was measured, for people."""
    return (
        f"{row['functions']} functions: {row['whole_s']:.1f} s; nothing to do: "
        f"{row['nothing_s']:.2f} s\n"
        f"after one edit: {row['compiled']} compiled, {row['one_s']:.1f} s"
    )
