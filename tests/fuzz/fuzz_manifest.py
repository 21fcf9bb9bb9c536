"""Manifests: a model that can be planned and sent to workers, or ManifestError with places."""

import sys

import atheris
from support.mutators import mutate_words

with atheris.instrument_imports(include=["aotbuild"]):
    from support.manifest_fuzz import check_plan, check_problems

    from aotbuild.errors import ManifestError
    from aotbuild.manifest import parse_manifest
    from aotbuild.platforms.cpu import describe as cpu  # noqa: F401
    from aotbuild.platforms.cuda import describe as cuda  # noqa: F401
    from aotbuild.platforms.tpu import describe as tpu  # noqa: F401

WORDS = ("version: 1", "f32[b, 4]", "~i32[]", "key<fry>[]", "[1, 8]", "{like: 'p.m:f'}", "*a", "&a")
WORDS += ("p.m:f", "{b: 1, s: 2}", "[{b: 1}, {b: 2}]", "cpu", "cuda: {sm: 90}", "portable: {}")
WORDS += ("{shape: [b], dtype: f32}", "!t", "<<: {}", "- ", "? ", "|", "---", "2*n", "'n <= 64'")


def TestOneInput(data: bytes) -> None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    try:
        manifest = parse_manifest(text, "aot.yaml")
    except ManifestError as err:
        check_problems(err)
    else:
        check_plan(manifest)


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_words(*WORDS))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
