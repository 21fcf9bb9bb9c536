"""Files of shards: results of units that are written as they were read, or ValueError."""

import sys

import atheris
from support.mutators import mutate_json_lines

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.build.assemble import assemble
    from aotbuild.build.results import ShardFile
    from aotbuild.errors import AotbuildError
    from aotbuild.format.canonical import canonical_json, read_canonical


def canonical_lines(data: bytes) -> bytes:
    lines = []
    for line in data.split(b"\n"):
        try:
            lines.append(canonical_json(read_canonical(line)))
        except ValueError:
            lines.append(line)
    return b"\n".join(lines)


def TestOneInput(data: bytes) -> None:
    try:
        found = ShardFile.from_bytes(data)
    except ValueError as err:
        str(err).encode("utf-8", "backslashreplace")
        return
    again = ShardFile.from_bytes(found.to_bytes())
    assert (again.plan, again.split, again.results) == (found.plan, found.split, found.results)
    try:
        assemble(found.facts, found.results, found.sources)
    except AotbuildError as err:
        str(err).encode("utf-8", "backslashreplace")


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_json_lines)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
