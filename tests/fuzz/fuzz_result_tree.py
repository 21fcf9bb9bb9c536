"""Trees in records: what passes the checks of a record is made, taken apart and put together.

Nothing but `NotRestored`, or what `load` turns into an error. Types come from a short list here, so
that a finding is one of the reader and not of what Python can import.
"""

import contextlib
import sys

import atheris
from support.mutators import mutate_json

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.errors import AotbuildError
    from aotbuild.format import restore
    from aotbuild.format.canonical import read_canonical
    from aotbuild.format.imports import Imports
    from aotbuild.format.record_check import _tree_problems
    from aotbuild.format.restore import Maker, NotRestored
    from aotbuild.format.tree import leaf_count
    from aotbuild.format.values import import_object
    from aotbuild.runtime.numpy.trees import NumpyTrees
    from aotbuild.runtime.trees import restore as restore_outputs

TREES = NumpyTrees(lambda: Imports("demo"))
ARGUMENTS = ((1.0, {"a": 2.0, "b": [3.0, (4.0,)]}), {"scale": 5.0})
INPUTS = TREES.flatten(ARGUMENTS)[1]
KNOWN = ("collections", "builtins", "types", "enum", "fractions", "decimal", "pathlib", "typing")


def import_known(name: str) -> object:
    if name.partition(":")[0] not in KNOWN:
        raise ImportError(name)
    return import_object(name)


def TestOneInput(data: bytes) -> None:
    try:
        tree = read_canonical(data)
    except ValueError:
        return
    for inputs in (False, True):
        problems = list(_tree_problems(tree, "tree", inputs=inputs))
        "".join(map(str, problems)).encode("utf-8", "backslashreplace")
        if not problems:
            use(tree)


def use(tree: object) -> None:
    leaf_count(tree)
    # The way of a call, which may import from its package alone.
    with contextlib.suppress(AotbuildError):
        restore_outputs(tree, INPUTS, TREES, INPUTS)
    maker = Maker(TREES.make_treedef, import_known, TREES.nodes)
    try:
        treedef = restore.restore(tree, maker, INPUTS, INPUTS)
    except NotRestored as err:
        str(err).encode("utf-8", "backslashreplace")
        return
    except LookupError:  # a reference that leads nowhere: `load` says so
        return
    with contextlib.suppress(ValueError, TypeError, LookupError):  # what the types refuse
        TREES.flatten(treedef.unflatten([0.0] * treedef.num_leaves))


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_json)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
