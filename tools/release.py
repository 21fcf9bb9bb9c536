"""Build the files of a release of aotbuild, and check them. Publishing is the workflow's part.

    python tools/release.py                 # a rehearsal, from any state of a checkout
    python tools/release.py --tag v0.2.0    # what .github/workflows/release.yml runs

Needs uv and a package index. Ends with 1 and every reason if anything is wrong.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
# Knows the license fields of metadata 2.4.
TWINE = "twine>=6.1"
VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
# `## 0.2.0` or `## 0.2.0 - 2026-12-24`, as Keep a Changelog has it.
SECTION = re.compile(
    r"^## (.+?)(?: - \d{4}-\d\d-\d\d)?$\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL
)


def main() -> None:
    """Check what is released, build it, check the files, and list them."""
    options = _options()
    version = stated_version()
    problems = list(tag_problems(options.tag, version)) if options.tag else []
    if options.out.exists() and any(options.out.iterdir()):
        problems.append(f"{options.out}: expected an empty folder, or none")
    if problems:
        fail(problems)
    try:
        build(options.out)
        check(options.out, version)
    except subprocess.CalledProcessError as err:
        command = subprocess.list2cmdline(map(str, err.cmd))
        output = indent((err.stdout or "").rstrip(), "    ")
        fail([f"{command} ended with {err.returncode}:\n{output}"])
    for path in files(options.out):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")
    print(f"aotbuild {version}: ready" if options.tag else f"aotbuild {version}: rehearsed, no tag")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tag", help="the tag that is released, such as v0.2.0; none: rehearse")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="default: dist")
    return parser.parse_args()


def stated_version() -> str:
    """Return the version in the source, which the wheel gets."""
    found = VERSION.search((ROOT / "aotbuild" / "__init__.py").read_text(encoding="utf-8"))
    assert found, "pyproject.toml reads it from there too"
    return found[1]


def tag_problems(tag: str, version: str) -> Iterator[str]:
    """Yield what keeps this checkout from being the release of a tag."""
    if tag != f"v{version}":
        yield f"the tag: expected v{version}, as in aotbuild/__init__.py, found {tag}"
    yield from changelog_problems((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    if changed:
        yield f"the checkout: expected no changes, found\n{indent(changed.rstrip(), '    ')}"


def changelog_problems(text: str, version: str) -> Iterator[str]:
    """Yield why the newest section of the changelog is not that of this version."""
    sections = [(name, body.strip()) for name, body in SECTION.findall(text)]
    if sections and sections[0][0] == "Unreleased" and not sections[0][1]:
        sections = sections[1:]
    name, body = sections[0] if sections else ("nothing", "")
    if name != version:
        yield f"CHANGELOG.md: expected ## {version} first, found ## {name}"
    elif not body:
        yield f"CHANGELOG.md: ## {version} says nothing"


def build(out: Path) -> None:
    """Build the source distribution, and the wheel from it."""
    run("build", "--quiet", "--no-create-gitignore", "--out-dir", out, ROOT)


def check(out: Path, version: str) -> None:
    """Check the files as PyPI does, and in an environment of their own."""
    run("tool", "run", "--quiet", "--from", TWINE, "twine", "check", "--strict", *files(out))
    (wheel,) = out.glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        run("venv", "--quiet", "--python", sys.executable, Path(folder, "env"))
        python = Path(folder, "env", "bin", "python")
        run("pip", "install", "--quiet", "--python", python, wheel)
        # Not in the checkout, whose aotbuild would be imported.
        own = (python, "-P", "-m", "aotbuild")
        printed = _run([*own, "--version"], Path(folder))
    if printed != f"aotbuild, version {version}\n":
        fail([f"{wheel.name}: expected version {version}, found: {printed}"])


def files(out: Path) -> list[Path]:
    """Return what is published."""
    return sorted(path.resolve() for path in out.iterdir())


def run(*arguments: str | Path) -> str:
    """Run uv and return what it printed; CalledProcessError if it fails."""
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        fail(["uv is not installed: pip install uv"])
    return _run([uv, *arguments], ROOT)


def _run(command: list[str | Path], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    )
    return done.stdout


def fail(problems: list[str]) -> NoReturn:
    """End with all problems."""
    sys.exit("\n".join(f"release: {problem}" for problem in problems))


if __name__ == "__main__":
    main()
