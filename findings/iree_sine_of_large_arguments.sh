#!/usr/bin/env bash
# IREE 3.13.0 for CPUs: stablehlo.sine of f32, as jax.numpy.sin exports it.
#
# Guess: the error of a sine grows with its argument, as the reduction by multiples of pi loses digits;
# the result stays between -1 and 1. Compilers agree to a few ulp where positions are below 1e5.
#
# Seen: the error is 1e-3 at 65,536, where numpy's is below 1e-7. At 1e9 the result is above 1e12, and
# at 1e12 it is infinite. Positional encodings and phases that grow with time are wrong first.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check \
    iree-base-compiler==3.13.0 iree-base-runtime==3.13.0 numpy==2.4.6
env/bin/python -c '
import iree.compiler, iree.runtime, numpy as np
x = np.array([10, 1000, 65536, 1e9, 1e12], np.float32)
text = """module @m { func.func public @main(%x: tensor<5xf32>) -> tensor<5xf32> {
  %y = stablehlo.sine %x : tensor<5xf32>
  return %y : tensor<5xf32> } }"""
options = ["--iree-llvmcpu-target-cpu=generic"]
code = iree.compiler.compile_str(
    text, target_backends=["llvm-cpu"], input_type="stablehlo", extra_args=options)
context = iree.runtime.SystemContext(config=iree.runtime.Config("local-task"))
module = iree.runtime.VmModule.copy_buffer(context.instance, code)
context.add_vm_module(module)
for each, found in zip(x, np.asarray(context.modules.m.main(x))):
    print(f"sin({each:g}) = {found:g}, right: {np.sin(np.float64(each)):g}")' | tee found
grep -q '^sin(65536) = 0.6933' found   # right: 0.692065
grep -Eq '^sin\(1e\+09\) = -?[0-9.]+e\+1[0-9],' found
grep -Eq '^sin\(1e\+12\) = -?inf,' found
