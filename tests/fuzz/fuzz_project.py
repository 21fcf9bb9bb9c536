"""pyproject.toml: what is read of it, and what `init` makes of it, or ProjectError."""

import contextlib
import sys
import tomllib

import atheris
from support.fuzz_files import as_file, folder
from support.mutators import mutate_words

with atheris.instrument_imports(include=["aotbuild", "hatch_aotbuild"]):
    from aotbuild.errors import PlanError, ProjectError
    from aotbuild.record.project import manifest_named, prepare
    from aotbuild.record.project_tables import Wanted
    from aotbuild.record.recorded_package import _project_name
    from aotbuild.record.source_files import import_roots
    from hatch_aotbuild.plugin import read_manifest

WORDS = ("[tool.hatch.build.targets.wheel]", "[build-system]", "requires = ['hatchling']")
WORDS += ("[tool.hatch.build.targets.wheel.hooks.aotbuild]", "manifest = 'aot.yaml'", "[project]")
WORDS += ("build-backend = 'setuptools.build_meta'", "dependencies = ['jax']", "name = 'p'", "{}")
WORDS += ("packages = ['src/p']", "[[tool.uv.cache-keys]]", "editable = 'build'", "dynamic = []")


def TestOneInput(data: bytes) -> None:
    as_file(data, "pyproject.toml")
    _project_name(folder())
    assert all(isinstance(each, str) for each in import_roots(folder()))
    text = data.decode("utf-8", "replace")
    assert manifest_named(text)
    for wanted in (Wanted("p", "src/p"), Wanted("p.q", "p/q", others=("setup.py",), project="p")):
        for switch in (False, True):
            try:
                prepared = prepare(text, wanted, switch=switch)
            except ProjectError as err:
                str(err).encode("utf-8", "backslashreplace")
                continue
            found = tomllib.loads(prepared.text)
            if not prepared.problem:
                read(found)
                # It may refuse tables in an order that its editor cannot extend twice.
                with contextlib.suppress(ProjectError):
                    again = prepare(prepared.text, wanted, switch=switch)
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
