"""Sessions of commands that print what the pages show, with the files that the pages have."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from zipfile import ZipFile

import numpy as np

from aotbuild.format.index import Index, write_index
from aotbuild.format.record import Record
from aotbuild.format.target import Target
from aotbuild.platforms.base import Host
from aotbuild.platforms.cpu import host as cpuinfo
from aotbuild.platforms.cpu.isa import LEVELS, best_level
from aotbuild.runtime.library import Library
from aotbuild.runtime.locate import locate
from support.doc_pages import DOCS, MANIFESTS, name_of, text_of

TUTORIAL, HOW_TO = DOCS / "tutorial" / "first-wheel.md", DOCS / "how-to"
LEVEL = best_level(cpuinfo.architecture(), cpuinfo.features()) or "x86-64-v2+avx"
# A file of a page is named by its title, or by a comment in its first line.
NAMED = re.compile(
    r'^```\w+(?: title="([^"]+)"\n|\n# (\S+\.py)\n)(.*?)^```', re.MULTILINE | re.DOTALL
)
SOURCE = "def score(weights, x):\n    return x @ weights\n"
# The calls of docs/how-to/sharding.md that are refused.
PLACED = """
import aotbuild, jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

lib = aotbuild.load("build/aot/parallel/_aot")
x, params = np.zeros((8, 16), "f4"), {"w": np.zeros((16, 8), "f4"), "b": np.zeros(8, "f4")}
if len(jax.devices()) == 1:
    lib.apply(params, x)
devices = np.array(jax.devices())
mesh, other = (Mesh(d.reshape(2, 2), ("data", "model")) for d in (devices, np.roll(devices, 2)))
specs = {"w": P(None, "model"), "b": P("model")}
placed = {k: jax.device_put(v, NamedSharding(mesh, specs[k])) for k, v in params.items()}
for params, where in (
    (placed, NamedSharding(mesh, P())),
    (params, devices[0]),
    (placed, NamedSharding(other, P("data", None))),
):
    try:
        lib.apply(params, jax.device_put(x, where))
    except aotbuild.errors.InvalidArgument as err:
        print(err)
"""
EXPLAINED = '''\
import jax.numpy as jnp


def logits(tokens, causal):
    """Return the largest of the scores."""
    scores = tokens * 2.0
    if causal:
        scores = jnp.tril(scores)
    return scores.max()
'''
EXPLAINED_MANIFEST = """\
version: 1
package: mypkg
functions:
  logits:
    call: mypkg.model:logits
    args: [tokens: "f32[batch,batch]"]
    dims: {batch: [1, 8]}
    static: {causal: [false, true]}
"""
PLAIN_MANIFEST = """\
version: 1
package: mypkg
functions:
  score:
    call: mypkg.model:score
    args: [weights: "f32[16,4]", x: "f32[batch,16]"]
    dims: {batch: BATCH}
"""
CALLED = """
import aotbuild, numpy as np

lib = aotbuild.load("build/aot/mypkg/_aot")
lib.score(np.ones((16, 4), "float32"), np.ones((32, 16), "float32"))
"""
WEIGHTS, X = np.ones((16, 4), "float32"), np.ones((32, 16), "float32")


class Place:
    """A folder with a project, and what commands that ran in it printed, by command."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.printed: dict[str, list[str]] = defaultdict(list)
        root.mkdir()

    def write(self, name: str, text: str) -> None:
        """Write a file of the project; a module makes its folder a package."""
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        if path.suffix == ".py" and path.parent != self.root:
            (path.parent / "__init__.py").touch()
        path.write_text(text, encoding="utf-8")

    def write_all(self, page: Path) -> None:
        """Write the files of a page, and its manifest."""
        for name, texts in files_of(page).items():
            self.write(name, texts[0])
        manifests = [text for name, text in MANIFESTS if name == name_of(page)]
        self.write("aot.yaml", manifests[0])

    def run(self, command: str, code: int = 0) -> None:
        """Run a command of a page with the tools of this environment, none of its settings."""
        settings = ("PYTHON", "AOTBUILD_FALLBACK", "JAX_", "XLA_")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(settings)}
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
        # The environment of the tests has all that an isolated one would get.
        environment |= {"PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        done = subprocess.run(
            ["bash", "-c", command],
            capture_output=True, text=True, env=environment, cwd=self.root, timeout=300,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        self.keep(command, done.stderr + done.stdout)

    def keep(self, command: str, text: str) -> None:
        text = text.replace(str(self.root.parent), "…").replace(LEVEL, "x86-64-v4")
        self.printed[command].append(text.replace(LEVEL.upper(), "X86-64-V4"))


def files_of(page: Path) -> dict[str, list[str]]:
    """Return the texts that a page has for each file."""
    files = defaultdict(list)
    for title, comment, text in NAMED.findall(text_of(page)):
        files[title or comment].append(text)
    return files


def tutorial(place: Place) -> None:
    """Do what the tutorial does."""
    files = files_of(TUTORIAL)
    for name in ("mypkg/model.py", "call.py"):
        place.write(name, files[name][0])
    first, portable = files["aot.yaml"]
    place.run("aotbuild init mypkg.model --yes")
    place.run("aotbuild plan", code=3)
    written = {name: (place.root / name).read_text() for name in ("pyproject.toml", "aot.yaml")}
    assert [written["pyproject.toml"]] == files["pyproject.toml"]
    filled = written["aot.yaml"].replace("TODO}", "[1, 32]}").replace("[tanh]", "[tanh, relu]")
    assert [line for line in filled.splitlines() if "TODO" not in line] == first.splitlines()
    place.write("aot.yaml", first.replace("f32[batch,16]", "f32[batc,16]"))
    place.run("aotbuild plan", code=3)
    place.write("aot.yaml", first)
    for command in (
        "aotbuild plan",
        "pip wheel . --no-deps -w dist",
        "python -m zipfile -l dist/mypkg-*.whl",
        "aotbuild inspect dist/mypkg-*.whl",
        "aotbuild verify dist/*.whl",
        "pip install --quiet --no-deps --target run/site dist/mypkg-*.whl && mkdir run/bin",
    ):
        place.run(command)
    (wheel,) = (place.root / "dist").iterdir()
    with ZipFile(wheel) as archive:
        place.keep("METADATA", archive.read("mypkg-0.1.0.dist-info/METADATA").decode())
    place.write("run/bin/python", f'#!/bin/sh\nPYTHONPATH=run/site exec {sys.executable} "$@"\n')
    (place.root / "run" / "bin" / "python").chmod(0o755)
    place.run("run/bin/python call.py")
    called = files["call.py"][0] + files["call.py, last line"][0]
    place.write("call.py", called)
    place.run("run/bin/python call.py", code=1)
    place.run("AOTBUILD_FALLBACK=jit run/bin/python call.py")
    place.write("aot.yaml", f"keep: [hlo]\n{portable}")
    place.run("aotbuild plan")
    place.run("aotbuild build")
    place.run(
        "aotbuild inspect build/aot/mypkg/_aot --target cpu --signature "
        "\"batch=32, activation='relu'\" --hlo"
    )
    place.write("call.py", called.replace('"mypkg"', '"build/aot/mypkg/_aot"'))
    place.run("python call.py")
    place.write("serve.py", files["serve.py"][0])
    report = "aotbuild coverage aot.recording.jsonl build/aot/mypkg/_aot"
    place.run("aotbuild record --no-manifest -- python serve.py")
    place.run(report)
    place.run("aotbuild record --from aot.recording.jsonl")
    place.run("aotbuild build")
    place.run(f"{report} --fail-under 100")


def explained(place: Place) -> None:
    """Run `aotbuild plan --explain`."""
    place.write("mypkg/model.py", EXPLAINED)
    place.write("aot.yaml", EXPLAINED_MANIFEST)
    place.run("aotbuild plan --explain")


def editable(place: Place) -> None:
    """Load a package of sources, before and after its executables are there."""
    place.write("mypkg/model.py", SOURCE)
    place.write("aot.yaml", PLAIN_MANIFEST.replace("BATCH", "1"))
    load = "python -c 'import aotbuild; print(aotbuild.load(\"mypkg\"))'"
    place.run(load, code=1)
    place.run("aotbuild build --in-place")
    place.run(load)
    place.write("mypkg/model.py", f"{SOURCE}# edited\n")
    place.run("aotbuild build --in-place --check || aotbuild build --in-place")


def gates(place: Place) -> None:
    """Compare a package with one that lacks a signature."""
    place.write("mypkg/model.py", SOURCE)
    for name, sizes in (("old", "[1, 32]"), ("new", "[1]")):
        place.write("aot.yaml", PLAIN_MANIFEST.replace("BATCH", sizes))
        place.run(f"aotbuild build --out {name}/_aot")
    place.run("aotbuild diff old new --gate size=+5%,coverage=0,cold-start=+10%", code=13)


def sharding(place: Place) -> None:
    """Call a function over a mesh with arguments that are on other devices."""
    place.write_all(HOW_TO / "sharding.md")
    place.run("aotbuild plan")
    place.run("aotbuild build")
    place.write("placed.py", PLACED)
    place.run("python placed.py", code=1)
    place.run("XLA_FLAGS=--xla_force_host_platform_device_count=4 python placed.py")


def stages(place: Place) -> None:
    """Print the stages that a build kept."""
    place.write_all(HOW_TO / "stages.md")
    place.run("aotbuild build")
    for stage in ("jaxpr", "hlo"):
        place.run(f"aotbuild inspect build/aot/nets/_aot --signature batch=8 --{stage}")


def opened(place: Place, package: str) -> tuple[Path, Index]:
    """Return the `_aot` folder that a build wrote, and its index."""
    folder = place.root / "build" / "aot" / package / "_aot"
    return folder, Index.open((folder / "index").read_bytes(), "index")


def rewrite(folder: Path, index: Index, *records: Record) -> None:
    header = {k: v for k, v in index.header.items() if k not in ("objects", "rows")}
    (folder / "index").write_bytes(write_index(header, index.functions(), records))


def for_target(record: Record, target: str, **requires: object) -> Record:
    """Return a record as one for another target."""
    where = Target.parse(target)
    isa = where.detail if where.platform == "cpu" else None
    changed = {"platforms": where.platforms, "isa": isa, "features": (), **requires}
    needs = dataclasses.replace(record.requires, **changed)  # type: ignore[arg-type]
    return dataclasses.replace(record, target=where, requires=needs)


def golden(place: Place) -> None:
    """Verify executables of the page's function, and of one that returns twice as much."""
    page = HOW_TO / "verify-outputs.md"
    place.write_all(page)
    verified = (place.root / "aot.yaml").read_text(encoding="utf-8")
    place.write("aot.yaml", verified.partition("    verify:")[0])
    place.run("aotbuild build")
    place.write("aot.yaml", verified.replace("[4, 64]", "[4]"))
    place.run("aotbuild build")
    place.run("aotbuild verify build/aot/draws/_aot")
    place.run("PYTHONPATH=. aotbuild verify --against-jit build/aot/draws/_aot")
    folder, index = opened(place, "draws")
    (honest,) = index.records("sample")
    assert honest.golden is not None
    blobs = (honest.golden.outputs, *(blob for _, blob in honest.golden.inputs))
    kept = {blob.path: (folder / blob.path).read_bytes() for blob in blobs}
    source = files_of(page)["draws/model.py"][0]
    place.write("draws/model.py", source.replace("return chol", "return 2 * chol"))
    place.run("aotbuild build")
    _, index = opened(place, "draws")
    (other,) = index.records("sample")
    assert other.golden is not None
    (folder / other.golden.outputs.path).unlink()
    for path, data in kept.items():
        (folder / path).write_bytes(data)
    rewrite(folder, index, dataclasses.replace(other, golden=honest.golden))
    place.run("aotbuild verify build/aot/draws/_aot", code=9)


def hosts(place: Place) -> None:
    """Verify, explain and call a package that is mostly for other hosts."""
    place.write("mypkg/model.py", SOURCE)
    place.write("aot.yaml", PLAIN_MANIFEST.replace("BATCH", "32"))
    place.run("aotbuild build")
    folder, index = opened(place, "mypkg")
    (record,) = index.records("score")
    targets = ("cuda:h200:1", "cuda:h100-sxm:1", "tpu:v5e:2x2:1", "tpu:v6e:2x2:1")
    rewrite(folder, index, record, *(for_target(record, target) for target in targets))
    place.run("aotbuild verify build/aot/mypkg/_aot")
    levels = ("x86-64-v3", "x86-64-v4")
    rewrite(
        folder, index, *(for_target(record, f"cpu:{level}:1", jaxlib="0.10.2") for level in levels)
    )
    for level, version in (("x86-64-v4", "0.10.2"), ("x86-64-v3", "0.10.1")):
        host = Host("cpu", 1, ("cpu",), 1, "x86_64", LEVELS[level].features, version, x64=False)
        library = Library(locate(folder), host=lambda _, host=host: host)
        place.printed["explain"].append(str(library.explain("score", WEIGHTS, X)))
    rewrite(folder, index, record)
    pointer = f"oid sha256:{record.blob.sha256}\nsize {record.blob.size}\n"
    blob = folder / record.blob.path
    blob.write_text(f"version https://git-lfs.github.com/spec/v1\n{pointer}")
    place.write("call.py", CALLED)
    place.run("python call.py", code=1)


SESSIONS = (tutorial, editable, gates, sharding, stages, explained, golden, hosts)
