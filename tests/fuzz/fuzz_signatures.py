"""Signature files and public keys: read and written as the same bytes, or UntrustedPackage."""

import contextlib
import sys

import atheris
from support.mutators import mutate_words

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.errors import UntrustedPackage
    from aotbuild.format.signing import Seal, read_seals, write_seals

LINE = f"ed25519 {'0' * 64} {'A' * 86}=="


def TestOneInput(data: bytes) -> None:
    try:
        seals = read_seals(data, "index.sig")
    except UntrustedPackage as err:
        str(err).encode()
    else:
        assert write_seals(seals) == data
    for line in data.decode("utf-8", "replace").split("\n"):
        with contextlib.suppress(ValueError):
            assert str(Seal.parse(line)) == line


def main() -> None:
    mutate = mutate_words(LINE, "ed25519", "0" * 64, "A" * 86 + "==", "aotbuild-signatures 1")
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
