#!/bin/bash -eu
# Run by OSS-Fuzz in its container: packs each harness with its corpus, and what failed once.
python3 -m pip install '.[build,jax]' safetensors

for harness in tests/fuzz/fuzz_*.py; do
    name=$(basename -s .py "$harness")
    # Modules are imported late, and presets lie beside the package: PyInstaller sees neither.
    compile_python_fuzzer "$harness" --paths tests \
        --collect-all aotbuild --collect-submodules hatch_aotbuild --collect-submodules support
    zip -q -j "$OUT/${name}_seed_corpus.zip" "tests/fuzz/corpus/${name#fuzz_}"/*
    if [ -d "tests/fuzz/findings/${name#fuzz_}" ]; then
        zip -q -j "$OUT/${name}_seed_corpus.zip" "tests/fuzz/findings/${name#fuzz_}"/*
    fi
done
