"""One way down through the layers, and private jax names in few files only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "aotbuild"

# What each layer may import of aotbuild's own.
ALLOWED = {
    "errors": set(),
    "format": {"errors", "format"},
    "manifest": {"errors", "format", "manifest", "platforms"},
    "platforms": {"errors", "format", "platforms"},
    "store": {"errors", "format", "store"},
    "toolchains": {"errors", "format", "manifest", "platforms", "store", "toolchains"},
    "build": {"errors", "format", "manifest", "platforms", "store", "toolchains", "build"},
    "worker": {
        *("errors", "format", "manifest", "platforms", "store", "toolchains", "build", "worker")
    },
    "runtime": {"errors", "format", "platforms", "runtime"},
    "record": {"errors", "format", "manifest", "runtime", "record", "__version__"},
    "report": {"errors", "format", "platforms", "runtime", "report"},
    "verify": {"errors", "format", "platforms", "runtime", "verify"},
    "wheels": {"errors", "format", "platforms", "build", "runtime", "report", "verify", "wheels"},
    "cli": {
        *("errors", "format", "manifest", "platforms", "store", "toolchains", "build", "worker"),
        *("runtime", "report", "verify", "wheels", "cli"),
        "record",
    },
    "__init__": {"errors", "runtime", "record"},
    "__main__": {"cli"},
}
# Packages that a layer may never import, at the top of a file or inside a function.
FORBIDDEN = {
    "errors": {"jax", "jaxlib", "numpy", "yaml", "pydantic", "hatchling"},
    "format": {"jax", "jaxlib", "numpy", "yaml", "pydantic", "hatchling"},
    "runtime": {"yaml", "pydantic", "hatchling", "rich", "packaging"},
    "record": {"rich"},
    "report": {"jax", "jaxlib", "numpy", "yaml", "pydantic", "rich"},
    "runtime/numpy": {"jax"},
    "manifest": {"jax", "jaxlib", "numpy"},
}
# Golden inputs are made and results compared by the same rules on both sides: copies could differ.
# So are trees made of their descriptions, and the few that hold data of numpy import it then.
EXCEPTIONS = {"format/golden.py": {"numpy"}, "format/restore.py": {"numpy"}}
PRIVATE_FILES = {
    "record/private.py",
    "worker/private.py",
    "runtime/jax/clients.py",
    "runtime/jax/private.py",
    "runtime/numpy/private.py",
}


PLATFORMS = PACKAGE / "platforms"
# The seam: what each layer may import of `platforms`. The names of platforms are in no import.
SEAM = {
    "runtime": {"base"},
    "report": {"base"},
    "verify": {"base"},
    "manifest": {"base", "building", "options"},
    "toolchains": {"base", "building"},
    "build": {"base", "building"},
    "worker": {"base", "building"},
    "wheels": {"base", "building"},
    "cli": {"base", "building"},
}
# A platform's parts that may import jax; `host`, `checks` and `client` are the runtime's.
WITH_JAX = {"compile"}
OF_THE_RUNTIME = {"base", "host", "checks", "client"}
# Words that are names of platforms in code, and where they may stand outside of their folders.
PLATFORM_WORDS = {"cpu", "cuda", "gpu", "rocm", "tpu"}
NAMED_OUTSIDE = {
    "format/target.py": {"cpu"},  # HOST: the platform that every process has
    "format/record.py": {"cuda"},  # a field of the index's format
    "format/record_json.py": {"cuda"},  # the same
    "errors.py": {"gpu"},  # the public name NoGpu
    "cli/exit_codes.py": {"gpu"},  # the same
    "platforms/hook-aotbuild.py": {"cpu"},  # jaxlib.cpu, of which PyInstaller is told
    "cli/doctor.py": {"gpu"},  # --describe-gpu, and the key of its JSON
}
# Names that Python, Linux and jax gave.
NAMES_OF_OTHERS = {"cpu_count", "_cpu_count", "cpu.max", "cpu.cfs_", "JAX_NUM_CPU_DEVICES"}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def violations(path: Path, source_layer: str) -> list[str]:
    found = []
    for name in imports(path):
        top, *rest = name.split(".")
        allowed = ALLOWED[source_layer]
        if top == "aotbuild" and (rest[0] if rest else "") not in allowed:
            found.append(name)
    return found


SOURCES = sorted(PACKAGE.rglob("*.py"))


def test_imports_go_one_way() -> None:
    found = {path: violations(path, layer_of(path)) for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == {}


def test_foreign_packages_stay_in_their_layer() -> None:
    for path in SOURCES:
        relative = str(path.relative_to(PACKAGE))
        found = {name.split(".")[0] for name in imports(path)} - EXCEPTIONS.get(relative, set())
        for part, banned in FORBIDDEN.items():
            assert not (relative.startswith(part) and found & banned), path


def test_private_jax_names_are_in_few_files() -> None:
    private = {
        str(path.relative_to(PACKAGE))
        for path in SOURCES
        for name in imports(path)
        if name.startswith("jax._src")
        or (name.startswith("jaxlib") and not name.startswith("jaxlib.version"))
    }
    assert private <= PRIVATE_FILES


def test_no_module_imports_itself_by_a_detour() -> None:
    """Imports of types and inside functions count, too; CycleError names the modules."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in SOURCES}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    graph = {}
    for module, path in modules.items():
        found = {name if name in modules else name.rpartition(".")[0] for name in imports(path)}
        graph[module] = (found & set(modules)) - {module}
    TopologicalSorter(graph).prepare()


def test_platforms_are_reached_through_the_seam() -> None:
    shared = {file.stem for file in PLATFORMS.glob("*.py")}
    for path in SOURCES:
        names = [*imports(path)]
        parts = {name.split(".")[2] for name in names if name.startswith("aotbuild.platforms.")}
        if PLATFORMS not in path.parents:
            assert parts <= SEAM.get(layer_of(path), set()), path
            continue
        assert parts - shared <= {path.parent.name}, f"{path}: a platform imports another one"
        packages = {name.split(".")[0] for name in names}
        if path.stem in OF_THE_RUNTIME:
            assert packages.isdisjoint(FORBIDDEN["runtime"]), path
        if path.stem not in WITH_JAX:
            assert packages.isdisjoint({"jax", "jaxlib"}), path


def platform_words(path: Path) -> set[str]:
    """Return the names of platforms in a file's code: strings without spaces, and identifiers."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        texts = [getattr(node, field, None) for field in ("id", "attr", "arg", "name", "module")]
        if isinstance(node, ast.Constant) and " " not in str(node.value).strip():
            texts.append(node.value)
        for text in texts:
            if isinstance(text, str) and text not in NAMES_OF_OTHERS:
                spelled = re.sub(r"([a-z])([A-Z])", r"\1_\2", text).lower()
                found |= PLATFORM_WORDS & set(re.split(r"[^a-z0-9]+", spelled))
    return found


def test_a_platform_is_named_only_in_its_folder() -> None:
    found = {}
    for path in SOURCES:
        relative = str(path.relative_to(PACKAGE))
        if path.parent.parent != PLATFORMS and relative not in PRIVATE_FILES:
            found[relative] = platform_words(path)
    assert {path: words for path, words in found.items() if words} == NAMED_OUTSIDE


@pytest.mark.parametrize(
    "code", ['if platform == "cuda": pass', "is_gpu = 1", "import a.tpu", "def f(tpu): pass"]
)
def test_a_named_platform_is_found(tmp_path: Path, code: str) -> None:
    (tmp_path / "wrong.py").write_text(code)
    assert platform_words(tmp_path / "wrong.py")


def test_the_check_can_fail(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from aotbuild.runtime.api import load\n")
    assert violations(wrong, "build") == ["aotbuild.runtime.api.load"]
