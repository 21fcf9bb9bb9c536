"""Settings in environment variables: read, or one clear error."""

import os
import sys

import atheris
from support.mutators import mutate_words

with atheris.instrument_imports(include=["aotbuild", "hatch_aotbuild"]):
    from aotbuild.build.limits import JOBS_VARIABLE, most_jobs
    from aotbuild.build.run_units import is_shrink_on
    from aotbuild.errors import AotbuildError
    from aotbuild.runtime import package
    from aotbuild.store import place
    from aotbuild.toolchains.uv import cache_root

WORDS = ("/store", "s3://bucket/a", "file:///a", "https://u:p@host/x?token=a", "~/a", ",")
WORDS += ("off", "on", "none", "jit", "16")


def TestOneInput(data: bytes) -> None:
    text = os.fsdecode(data).replace("\0", "")
    environment = {"HOME": "/home/u"}
    for read in (
        lambda: place.store_place({**environment, place.VARIABLE: text}),
        lambda: is_shrink_on({"AOTBUILD_SHRINK": text}),
        lambda: most_jobs({JOBS_VARIABLE: text}),
        lambda: package.check_policy(text, "AOTBUILD_FALLBACK"),
        lambda: cache_root({"AOTBUILD_TOOLCHAINS": text}),
    ):
        try:
            read()
        except AotbuildError as err:
            str(err).encode("utf-8", "backslashreplace")


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_words(*WORDS))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
