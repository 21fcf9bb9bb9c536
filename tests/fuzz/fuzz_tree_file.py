"""Files of trees beside a manifest: read and written as the same trees, or problems with places."""

import sys

import atheris
from support.mutators import mutate_json

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.format.tree_file import names_in, parse_trees, render_trees


def TestOneInput(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    trees, problems = parse_trees(text)
    for problem in problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.message
    again, more = parse_trees(render_trees(trees).decode())
    assert not more, more
    assert again == trees
    for tree in trees.values():
        names_in(tree.tree)


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_json)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
