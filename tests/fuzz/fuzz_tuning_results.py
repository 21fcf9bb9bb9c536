"""Results of autotuning: read and written as the same results, or ValueError without a quote."""

import sys

import atheris
from support.mutators import mutate_words

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.platforms.cuda.tuning_results import TuningResults, merge


def TestOneInput(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    try:
        found = TuningResults.parse(text)
    except ValueError as err:
        str(err).encode()
        return
    again = TuningResults.parse(str(found))
    assert again == found, "results are written as others"
    assert merge([found, again]) == merge([found])
    for jax in ("0.10.2", "0.12.0.1"):
        fitting = found.fitting(jax, "NVIDIA H100")
        assert not fitting.count or TuningResults.parse(fitting.text)


def main() -> None:
    words = mutate_words(
        "version: 3",
        "results {",
        "entries {",
        'device: "a"',
        'hlo: "a"',
        "}",
        'hlo_fingerprint: "a"',
    )
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=words)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
