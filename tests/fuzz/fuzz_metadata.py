"""METADATA and WHEEL: read and edited, or the reader's error."""

import sys
from email.parser import HeaderParser

import atheris
from support.mutators import mutate_words

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.build.wheel_tag import with_tags
    from aotbuild.errors import PlanError
    from aotbuild.toolchains.toolchain import platforms_of
    from aotbuild.wheels import metadata

COMPANION = metadata.Companion("cuda", "p-cuda", ("jax-cuda13-plugin==0.10.2",), ())


def TestOneInput(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    lines = metadata.requirements(text)
    if not list(metadata.problems(text)) and HeaderParser().parsestr(text)["Name"] is not None:
        edit(text, lines)
    with_tags(text, "py3-none-any.linux_x86_64")
    try:
        platforms_of(text)
    except PlanError as err:
        str(err).encode()


def edit(text: str, lines: list[str]) -> None:
    """Do what `split` and `merge` do with the METADATA of a wheel that they opened."""
    again = metadata.with_requirements(text, [*lines, "x==1"])
    assert sorted({*metadata.requirements(again)}) == sorted({*lines, "x==1"})
    none = metadata.with_requirements(text, [])
    assert metadata.requirements(none) == []
    metadata.companion_metadata(text, COMPANION)
    metadata.with_companions(text, [COMPANION], "1")
    metadata.joined_requirements(
        {"a": lines, "b": [*lines, "jaxlib==0.10.2"]}, {"jax": "0.10.2"}, native=True, portable=True
    )


def main() -> None:
    words = ("Requires-Dist: x; extra == 'a'", "Name: p", "Version: 1", "Provides-Extra: cuda")
    mutate = mutate_words(*words, "Tag: py3-none-any", "Metadata-Version: 2.4", "\r", " x", "")
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
