"""Values with one spelling: avals and targets; or ValueError."""

import contextlib
import sys

import atheris
from support.mutators import mutate_words

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.format.aval import Aval, parse_spec
    from aotbuild.format.target import Target
    from aotbuild.platforms import base  # noqa: F401 (adds what the platforms know of targets)

WORDS = ("f32[8,128]", "~i32[b, 2]", "key<fry>[]", "cpu:x86-64-v3:1", "tpu:v5e:4x4:16@4")
WORDS += ("cuda:sm_90:8", "portable:cpu,tpu:2", "jaxlib==0.10.2", "jax>=0.10,<2; extra == 'a'")
WORDS += ("a[b] ~=1.0.dev1", "1!2.0rc1.post2.dev3+local.1", "x @ https://a/b ; c", ".*", "===")


def TestOneInput(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for line in [text, *text.split("\n")[:4]]:
        for parse in (Aval.parse, Target.parse):
            try:
                found = parse(line)
            except ValueError as err:
                str(err).encode("utf-8", "backslashreplace")
                continue
            assert parse(str(found)) == found
        with contextlib.suppress(ValueError):
            parse_spec(line)


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_words(*WORDS))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
