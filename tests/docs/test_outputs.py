"""What the pages show is what the commands print.

Each output that a page of `PAGES` shows is compared: what follows `$ command` in a console block
with that command's, and a block without a language with any. In a page, `…` stands for whatever a
machine prints there, in a line of its own for any lines; a page shows the CPU level x86-64-v4.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from zipfile import ZipFile

import jax
import jaxlib
import numpy as np
import pytest
from support.doc_pages import DOCS, FENCE, name_of, text_of
from support.projects import ROOT

import aotbuild
from aotbuild.platforms.cpu import host as cpuinfo
from aotbuild.platforms.cpu.isa import LEVELS, best_level
from aotbuild.runtime.host import Host
from aotbuild.runtime.library import Library
from aotbuild.runtime.locate import locate
from aotbuild.spec.index import Index, write_index
from aotbuild.spec.record import Record
from aotbuild.spec.target import Target

pytestmark = pytest.mark.wheel

TUTORIAL = DOCS / "tutorial" / "first-wheel.md"
PAGES = [
    ROOT / "README.md",
    TUTORIAL,
    DOCS / "how-to" / "production.md",
    *(DOCS / "reference" / f"{name}.md" for name in ("cli", "inspect", "verify")),
]
# Needs a CPU with that feature; tests/platforms/cpu/test_code.py has such a note.
ELSEWHERE = "shift(): cpu:x86-64-v3:1 uses gfni"
LEVEL = best_level(cpuinfo.architecture(), cpuinfo.features()) or "x86-64-v2+avx"
TITLED = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
SOURCE = "def score(weights, x):\n    return x @ weights * {factor}\n"
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
WEIGHTS, X = np.ones((16, 4), "float32"), np.ones((32, 16), "float32")


class Place:
    """A folder with a project, and what commands that ran in it printed, by command."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.printed: dict[str, list[str]] = defaultdict(list)
        (root / "mypkg").mkdir(parents=True)
        (root / "mypkg" / "__init__.py").touch()

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text, encoding="utf-8")

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


def tutorial(place: Place) -> None:
    """Do what the tutorial does."""
    files = defaultdict(list)
    for name, text in TITLED.findall(text_of(TUTORIAL)):
        files[name].append(text)
    for name in ("mypkg/model.py", "pyproject.toml", "call.py"):
        place.write(name, files[name][0])
    first, portable = files["aot.yaml"]
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


def explained(place: Place) -> None:
    """Run `aotbuild plan --explain`."""
    place.write("mypkg/model.py", EXPLAINED)
    place.write("aot.yaml", EXPLAINED_MANIFEST)
    place.run("aotbuild plan --explain")


def built(place: Place, batch: int, factor: int) -> tuple[Path, Index, Record]:
    """Build a function of one signature; return its `_aot` folder, index and record."""
    place.write("mypkg/model.py", SOURCE.format(factor=factor))
    place.write("aot.yaml", PLAIN_MANIFEST.replace("BATCH", str(batch)))
    place.run("aotbuild build")
    folder = place.root / "build" / "aot" / "mypkg" / "_aot"
    index = Index.open((folder / "index").read_bytes(), "index")
    return folder, index, index.records("score")[0]


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


def other_hosts(place: Place) -> None:
    """Verify a package that is mostly for other hosts."""
    folder, index, record = built(place, batch=1, factor=1)
    targets = ("cuda:h200:1", "cuda:h100-sxm:1", "tpu:v5e:2x2:1", "tpu:v6e:2x2:1")
    rewrite(folder, index, record, *(for_target(record, target) for target in targets))
    place.run("aotbuild verify build/aot/mypkg/_aot")


def other_numbers(place: Place) -> None:
    """Verify an executable whose golden outputs are those of another function."""
    folder, _, expected = built(place, batch=1, factor=1)
    assert expected.golden is not None
    outputs = folder / expected.golden.outputs.path
    data = outputs.read_bytes()
    folder, index, record = built(place, batch=1, factor=2)
    assert record.golden is not None
    (folder / record.golden.outputs.path).unlink()
    (folder / outputs.relative_to(folder)).write_bytes(data)
    rewrite(folder, index, dataclasses.replace(record, golden=expected.golden))
    place.run("aotbuild verify build/aot/mypkg/_aot", code=9)


def explanations(place: Place) -> None:
    """Explain a call on two hosts, for a package of two levels, and call one of Git LFS."""
    folder, index, record = built(place, batch=32, factor=1)
    blob = folder / record.blob.path
    pointer = f"oid sha256:{record.blob.sha256}\nsize {record.blob.size}\n"
    blob.write_text(f"version https://git-lfs.github.com/spec/v1\n{pointer}")
    with pytest.raises(aotbuild.errors.DamagedBlob) as caught:
        aotbuild.load(folder).score(WEIGHTS, X)
    place.keep(
        "damaged", f"aotbuild.errors.DamagedBlob: {caught.value}".replace(str(folder.parent), "…")
    )
    levels = ("x86-64-v3", "x86-64-v4")
    records = [for_target(record, f"cpu:{level}:1", jaxlib="0.10.2") for level in levels]
    rewrite(folder, index, *records)
    for level, version in (("x86-64-v4", "0.10.2"), ("x86-64-v3", "0.10.1")):
        features = LEVELS[level].features
        host = Host("cpu", 1, ("cpu",), 1, "x86_64", features, version, x64=False)
        opened = Library(locate(folder), host=lambda _, host=host: host)
        place.printed["explain"].append(str(opened.explain("score", WEIGHTS, X)))


SESSIONS = (tutorial, explained, other_hosts, other_numbers, explanations)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What all commands of the pages printed, by command."""
    found: dict[str, list[str]] = defaultdict(list)
    for session in SESSIONS:
        place = Place(tmp_path_factory.mktemp(session.__name__) / "scores")
        session(place)
        for command, texts in place.printed.items():
            found[command] += texts
    return found


def shown(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the outputs that a page shows, each with its command, or with none."""
    for indent, language, body in FENCE.findall(text_of(page)):
        text = re.sub(f"^{indent}", "", body, flags=re.MULTILINE)
        if language == "console":
            for command, output in re.findall(
                r"^\$ (.*\n(?:> .*\n)*)((?:(?!\$ ).*\n)*)", text, re.MULTILINE
            ):
                if output:
                    yield command.strip(), output
        elif not language:
            yield "", text


def normalized(text: str) -> str:
    """Return a text without what machines and versions differ in."""
    for pattern, word in (
        (rf"\b{re.escape(jaxlib.__version__)}(?![\d.])", "0.10.2"),
        (rf"\b{re.escape(jax.__version__)}(?![\d.])", "0.10.2"),
        (r"Python 3\.\d+\.\d+", "Python 3.11.7"),
        (r"\b[0-9a-f]{64}\b|\b[0-9a-f]{8}…", "<digest>"),
        (r"\b[\d.]+ ([kM]?B|bytes)\b", "<n> bytes"),
        (r"(\d\d:\d\d:\d\d) +\d+$", r"\1 <n>"),
        (r" +", " "),
        (r" +$", ""),
    ):
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text


def pattern_of(text: str) -> re.Pattern[str]:
    """Return what an output must match somewhere, in whole lines."""
    lines = [
        "(?:.*\n)*?" if line == "…" else re.escape(line).replace("…", ".*?") + "\n"
        for line in normalized(text).splitlines()
    ]
    return re.compile("^" + "".join(lines), re.MULTILINE)


OUTPUTS = [
    (page, command, text)
    for page in PAGES
    for command, text in shown(page)
    if not text.startswith(ELSEWHERE)
]


@pytest.mark.parametrize(
    ("page", "command", "text"), OUTPUTS,
    ids=[f"{name_of(page)}: {command or text.splitlines()[0]}" for page, command, text in OUTPUTS],
)  # fmt: skip
def test_the_output_is_what_is_printed(
    page: Path, command: str, text: str, printed: dict[str, list[str]]
) -> None:
    texts = printed[command] if command else [t for found in printed.values() for t in found]
    found = [normalized(each) + "\n" for each in texts]
    wanted = normalized(text)
    nearest = max(found, key=lambda each: SequenceMatcher(None, wanted, each).ratio(), default="")
    assert any(pattern_of(text).search(each) for each in found), f"{wanted}\nprinted:\n{nearest}"


def test_another_output_is_found() -> None:
    assert pattern_of("a … b\n…\nc\n").search(normalized("x\na  1 2 b\n\ny\nc\n"))
    assert not pattern_of("a … b\nc\n").search(normalized("a 1 b\nx\nc\n"))
