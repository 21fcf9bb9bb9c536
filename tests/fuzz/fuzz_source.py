"""Modules of a project: their jits make a manifest that can be read, or the module is refused."""

import sys

import atheris
from support.fuzz_files import as_file
from support.mutators import mutate_words

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.errors import ManifestError
    from aotbuild.manifest import parse_manifest
    from aotbuild.record import source_manifest
    from aotbuild.record.source import read_module
    from aotbuild.record.source_find import find_functions

WORDS = ("@jax.jit", "jax.jit(f, static_argnames=('n',))", "partial(jax.jit, donate_argnums=(0,))")
WORDS += ("def f(x, n=3):", "class A:", "    @staticmethod", "import jax", "from jax import jit")
WORDS += (
    'x: Float[Array, "b 4"]',
    "return x",
    "P('data')",
    "@nnx.jit",
    "@eqx.filter_jit",
    "*a",
    "/",
)


def TestOneInput(data: bytes) -> None:
    try:
        module = read_module("p.m", as_file(data, "m.py"), "p/m.py")
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # as `authoring.init` has it
        return
    found = find_functions(module)
    entries = source_manifest.draft_entries(found.functions)
    text = source_manifest.manifest_text("p", entries)
    if not entries or any(entry.todos for entry in entries):
        return
    try:
        parse_manifest(text, "aot.yaml", {})
    except ManifestError as err:
        # A draft may break a rule that only a person can decide; never the form of the file.
        problems = [str(problem) for problem in err.problems]
    else:
        problems = []
    assert not any("not YAML" in problem for problem in problems), text


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_words(*WORDS))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
