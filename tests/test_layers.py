"""One way down through the layers, and private jax names in five files only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "aotbuild"

# What each layer may import of aotbuild's own.
ALLOWED = {
    "frozen": set(),
    "errors": set(),
    "format": {"errors", "format"},
    "manifest": {"errors", "format", "manifest", "platforms"},
    "platforms": {"errors", "format", "platforms"},
    "store": {"errors", "format", "store"},
    "toolchains": {"errors", "format", "manifest", "platforms", "store", "toolchains"},
    "build": {"errors", "format", "manifest", "platforms", "store", "toolchains", "build"},
    "worker": {
        *("errors", "format", "manifest", "platforms", "store", "toolchains", "build", "worker"),
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
    "cli/doctor.py": {"gpu"},  # --describe-gpu, and the key of its JSON
}
# Names that Python, Linux and jax gave.
NAMES_OF_OTHERS = {"cpu_count", "_cpu_count", "cpu.max", "cpu.cfs_", "JAX_NUM_CPU_DEVICES"}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
        # What defines classes is below all layers.
        allowed = ALLOWED[source_layer] | {"frozen"}
        if top == "aotbuild" and (rest[0] if rest else "") not in allowed:
            found.append(name)
    return found


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_one_way(path: Path) -> None:
    assert violations(path, layer_of(path)) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_foreign_packages_stay_in_their_layer(path: Path) -> None:
    relative = str(path.relative_to(PACKAGE))
    banned = set().union(*(names for part, names in FORBIDDEN.items() if relative.startswith(part)))
    allowed = EXCEPTIONS.get(relative, set())
    assert {name.split(".")[0] for name in imports(path)} & banned <= allowed


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_private_jax_names_are_in_five_files(path: Path) -> None:
    if str(path.relative_to(PACKAGE)) in PRIVATE_FILES:
        return
    private = [
        name
        for name in imports(path)
        if name.startswith("jax._src")
        or (name.startswith("jaxlib") and not name.startswith(("jaxlib.version",)))
    ]
    assert private == []


def test_no_module_imports_itself_by_a_detour() -> None:
    """Imports of types and inside functions count, too; CycleError names the modules."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in SOURCES}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    graph = {}
    for module, path in modules.items():
        found = {name if name in modules else name.rpartition(".")[0] for name in imports(path)}
        graph[module] = (found & set(modules)) - {module}
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_platforms_are_reached_through_the_seam(path: Path) -> None:
    parts = {name.split(".")[2] for name in imports(path) if name.startswith("aotbuild.platforms.")}
    if PLATFORMS not in path.parents:
        assert parts <= SEAM.get(layer_of(path), set())
        return
    own = path.parent.name
    shared = {file.stem for file in PLATFORMS.glob("*.py")}
    assert parts - shared <= {own}, "a platform imports another one"
    if path.stem in OF_THE_RUNTIME:
        assert {name.split(".")[0] for name in imports(path)}.isdisjoint(FORBIDDEN["runtime"])
    if path.stem not in WITH_JAX:
        assert {name.split(".")[0] for name in imports(path)}.isdisjoint({"jax", "jaxlib"})


def platform_words(path: Path) -> set[str]:
    """Return the names of platforms in a file's code: strings without spaces, and identifiers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in ast.walk(tree):
        texts = [getattr(node, field, None) for field in ("id", "attr", "arg", "name", "module")]
        if isinstance(node, ast.Constant) and " " not in str(node.value).strip():
            texts.append(node.value)
        for text in texts:
            if isinstance(text, str) and text not in NAMES_OF_OTHERS:
                spelled = re.sub(r"([a-z])([A-Z])", r"\1_\2", text).lower()
                found |= PLATFORM_WORDS & set(re.split(r"[^a-z0-9]+", spelled))
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_platform_is_named_only_in_its_folder(path: Path) -> None:
    relative = str(path.relative_to(PACKAGE))
    if path.parent.parent == PLATFORMS or relative in PRIVATE_FILES:
        return
    assert platform_words(path) == NAMED_OUTSIDE.get(relative, set())


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
