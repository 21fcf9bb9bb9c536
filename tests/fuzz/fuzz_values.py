"""Encoded values: static arguments, defaults and keys of dicts are decoded, or ValueError."""

import contextlib
import sys

import atheris
from support.mutators import mutate_json

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.format import identity
    from aotbuild.format.canonical import canonical_json, read_canonical
    from aotbuild.format.restore import Maker, _others
    from aotbuild.format.values import decode, encode, is_plain, shown

MAKER = Maker(lambda *_: None, lambda _: None)


def TestOneInput(data: bytes) -> None:
    try:
        value = read_canonical(data)
    except ValueError:
        return
    shown(value).encode("utf-8", "backslashreplace")
    with contextlib.suppress(ValueError):
        decode(value, {**_others(MAKER), **identity.NAMED})
    if is_plain(value):
        again = encode(decode(value))
        assert repr(decode(again)) == repr(decode(value))
        canonical_json(again)


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_json)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
