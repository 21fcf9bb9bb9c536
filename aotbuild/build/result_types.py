"""Types of results that a process without jax cannot make, for wheels that do not require jax."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from aotbuild.format.lifeline import run_tied
from aotbuild.format.record import Record
from aotbuild.format.tree import Tree, types_in

# A longer import is not waited for: the note is only advice.
_MOST_SECONDS = 60
# What the numpy backend knows besides standard containers and namedtuples.
_KNOWN = ("collections:OrderedDict", "collections:defaultdict")
_OF_JAX = ("jax:", "jax.")  # it returns jax's own namedtuples as tuples

# Prints which of some modules want jax when they are imported, with jax out of reach.
_CODE = """
import importlib, json, os, sys
real, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
os.dup2(2, 1)
names, path = json.loads(sys.argv[1])
sys.path[:0] = path
asked = []
class Finder:
    def find_spec(self, name, *_):
        if name == "jax":
            asked.append(name)
            raise ModuleNotFoundError("No module named 'jax'", name="jax")
sys.meta_path.insert(0, Finder())
found = []
for name in names:
    asked.clear()
    try:
        importlib.import_module(name)
    except BaseException:  # a module may also exit; what it asked for is all that counts
        pass
    if asked:
        found.append(name)
real.write(json.dumps(found))
real.flush()
os._exit(0)
"""


def result_type_notes(
    records: Iterable[Record], import_root: Path, interpreter: Path | None
) -> Iterator[str]:
    """Yield a note for each type of a result that `arrays="numpy"` cannot make without jax.

    Modules are imported in a process of their own, from `import_root`.
    """
    types: dict[tuple[str, str], dict[str, None]] = {}
    for record in records:
        for kind, name in unknown_types(record.calling.out_tree):
            types.setdefault((kind, name), {})[record.function] = None
    modules = {name.partition(":")[0] for kind, name in types if kind == "namedtuple"}
    wanting = _wanting_jax(sorted(modules), import_root, interpreter) if modules else set()
    for (kind, name), functions in types.items():
        module, of = name.partition(":")[0], ", ".join(functions)
        if kind == "node":
            yield (
                f'{of}: the result has a {name}, a pytree that only jax knows: with arrays="numpy" '
                "a call raises; return a dict or a namedtuple"
            )
        elif module in wanting:
            yield (
                f"{of}: the result has a {name}, and importing {module} imports jax: without jax a "
                "call raises, and with it the first call takes as long as importing jax; define "
                "the type in a module that imports no jax"
            )


def unknown_types(tree: Tree) -> Iterator[tuple[str, str]]:
    """Yield (kind, name) of each type in an output tree that the numpy backend has to import."""
    for kind, name in types_in(tree):
        is_known = name.startswith(_OF_JAX) if kind == "namedtuple" else name in _KNOWN
        if not is_known:
            yield kind, name


def _wanting_jax(modules: list[str], import_root: Path, interpreter: Path | None) -> set[str]:
    """Return the modules that import jax; none if that cannot be found out."""
    path = [str(import_root)]
    if interpreter is None:  # what this process imports, a process of the same Python does
        path += [str(Path(entry).absolute()) for entry in sys.path if entry]
    command = [str(interpreter or sys.executable), "-P", "-c", _CODE, json.dumps([modules, path])]
    try:
        done = run_tied(command, _MOST_SECONDS)
        return set(json.loads(done.stdout))
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return set()
