"""Signed statements (in-toto): about the files that are there, or UntrustedPackage."""

import sys

import atheris
from support.mutators import mutate_json

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.errors import UntrustedPackage
    from aotbuild.verify.statement import PAYLOAD_TYPE, Subject, check_statement

FOUND = [Subject("p-1-py3-none-any.whl", "0" * 64), Subject("p/_aot/index", "1" * 64)]


def TestOneInput(data: bytes) -> None:
    try:
        compared = check_statement("p", PAYLOAD_TYPE, data, FOUND)
    except UntrustedPackage as err:
        str(err).encode("utf-8", "backslashreplace")
        return
    # Accepted: so the digests are in it.
    assert compared
    assert b"1" * 64 in data


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_json)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
