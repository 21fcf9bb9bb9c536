"""pyproject.toml: what is read of it, and what `init` makes of it, or ProjectError."""

import contextlib
import sys
import tomllib
from pathlib import Path

import atheris
from support.fuzz_files import as_file
from support.mutators import mutate_words

with atheris.instrument_imports(include=["aotbuild", "hatch_aotbuild"]):
    from aotbuild.errors import PlanError, ProjectError
    from aotbuild.record.pyproject import Package, manifest_of, prepare
    from hatch_aotbuild.plugin import read_manifest

WORDS = ("[tool.hatch.build.targets.wheel]", "[build-system]", "requires = ['hatchling']")
WORDS += ("[tool.hatch.build.targets.wheel.hooks.aotbuild]", "manifest = 'aot.yaml'", "[project]")
WORDS += ("build-backend = 'setuptools.build_meta'", "dependencies = ['jax']", "name = 'p'", "{}")
WORDS += ("packages = ['src/p']", "[[tool.uv.cache-keys]]", "dynamic = []")


def TestOneInput(data: bytes) -> None:
    as_file(data, "pyproject.toml")
    text = data.decode("utf-8", "replace")
    assert manifest_of(text)
    for package in (Package("p", Path("src")), Package("p.q", Path())):
        try:
            prepared = prepare(text, package)
        except ProjectError as err:
            str(err).encode("utf-8", "backslashreplace")
            continue
        if prepared.is_hatchling:
            read(tomllib.loads(prepared.text))
            # It may refuse tables in an order that its editor cannot extend twice.
            with contextlib.suppress(ProjectError):
                again = prepare(prepared.text, package)
                assert again.text == prepared.text, "init changes what it wrote"


def read(found: dict) -> None:
    table = found["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["aotbuild"]
    try:
        read_manifest(table)
    except PlanError as err:
        str(err).encode("utf-8", "backslashreplace")


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_words(*WORDS))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
