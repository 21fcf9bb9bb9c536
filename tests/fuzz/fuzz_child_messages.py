"""What the children of `verify` print: outcomes of their jobs, whatever else is in between."""

import sys

import atheris
from support.mutators import mutate_json_lines

with atheris.instrument_imports(include=["aotbuild"]):
    from support.records import make_record

    from aotbuild.verify.jobs import (
        ChildExit,
        outcomes_after_exit,
        outcomes_of,
        read_messages,
    )

RECORD = make_record()
EXITED = ChildExit(-11, 60.0, "log")


def TestOneInput(data: bytes) -> None:
    for messages in read_messages(data):
        outcomes_of(RECORD, messages)
        for outcome in outcomes_after_exit(RECORD, messages, EXITED):
            str(outcome).encode("utf-8", "backslashreplace")


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_json_lines)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
