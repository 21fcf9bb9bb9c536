"""A user's file of a GPU: a preset that is written and read as the same one, or ManifestError."""

import sys

import atheris
from support.fuzz_files import as_file
from support.mutators import mutate_words

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.errors import ManifestError
    from aotbuild.manifest.targets import read_model
    from aotbuild.platforms.cuda.presets import FACTS, preset_text, read_preset


def TestOneInput(data: bytes) -> None:
    try:
        found = read_preset(as_file(data, "h100.yaml"), read_model)
    except ManifestError as err:
        for problem in err.problems:
            assert problem.line >= 1
        str(err).encode()
        return
    text = preset_text(found, "written again")
    again = read_preset(as_file(text.encode(), "h100.yaml"), read_model)
    assert again == found


def main() -> None:
    mutate = mutate_words(
        *(f"{name}: 1" for name in FACTS), "device_kind: a", '"9.0a"', "0x10", "~"
    )
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
