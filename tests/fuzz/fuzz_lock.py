"""Locks (pylock.toml) and what uv writes: read, compared and listed, or PlanError."""

import sys

import atheris
from support.mutators import mutate_words

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.errors import PlanError
    from aotbuild.toolchains.lock import is_lock, local_files, read_lock, unmet

WANTED = ("jax==0.10.2", "jaxlib>=0.10; python_version >= '3.11'", "numpy>=2")
WORDS = ("[[packages]]", 'name = "jaxlib"', 'version = "0.10.2"', "lock-version = '1.0'")
WORDS += (
    "marker = \"python_version > '3'\"",
    "wheels = [{url = 'https://a/b-1-py3-none-any.whl'}]",
)
WORDS += ("sdist = {path = 'a.tar.gz'}", "directory = {path = '.'}", "{hashes = {sha256 = '0'}}")


def TestOneInput(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    is_lock(text)
    for python in ("3.11", "3.13"):
        try:
            lock = read_lock(text, "pylock.toml", python)
        except PlanError as err:
            str(err).encode("utf-8", "backslashreplace")
            continue
        "".join(unmet(lock, WANTED, python)).encode()
        assert all(isinstance(each, str) for each in local_files(text))
        assert read_lock(lock.text, "pylock.toml", python) == lock
        str(lock.plugins)


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_words(*WORDS))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
