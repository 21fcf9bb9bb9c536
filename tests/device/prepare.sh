#!/bin/sh
# On a machine without a GPU: compile the wheel, and put all that run.sh needs into one folder.
#   tests/device/prepare.sh FOLDER
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=$1
mkdir -p "$out/tests"
python -m pip wheel --quiet --no-deps --wheel-dir "$out" "$root"
PIP_FIND_LINKS="$(cd "$out" && pwd)" python -m pip wheel --quiet --no-deps --wheel-dir "$out" \
    "$here/project"
python -m aotbuild.cli build "$here/project/neighbour.yaml" --out "$out/neighbour/_aot"
cp "$here/probe.py" "$here/test_device_gpu.py" "$here/measure.py" "$here/run.sh" "$out/tests"
echo "copy $out to the machine with the GPU, and run there: sh tests/run.sh"
