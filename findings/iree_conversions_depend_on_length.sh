#!/usr/bin/env bash
# jax 0.12.0.1 and IREE 3.13.0 for AVX2: x.astype(int8) of f32, one StableHLO, of 4 numbers and of 8.
#
# Guess: stablehlo.convert saturates, as XLA does: 200 becomes 127. A compiler that wraps does so for
# every array.
#
# Seen: IREE saturates 8 numbers and wraps 4: 200 is 127 in one and -56 in the other. For AVX-512 8
# wrap, too, and for x86-64-v2 none; NaN is 0 or -128, where XLA has 0. Quantized values change their
# sign with the batch size and the CPU.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check \
    jax==0.12.0.1 iree-base-compiler==3.13.0 iree-base-runtime==3.13.0
JAX_PLATFORMS=cpu env/bin/python -c '
import iree.compiler, iree.runtime, jax, jax.numpy as jnp, numpy as np
convert = jax.jit(lambda x: x.astype(jnp.int8))
for size in (4, 8):
    x = np.array([200, -200, 5, np.nan] * 2, np.float32)[:size]
    text = jax.export.export(convert)(x).mlir_module()
    code = iree.compiler.compile_str(text, target_backends=["llvm-cpu"], input_type="stablehlo",
                                     extra_args=["--iree-llvmcpu-target-cpu=haswell"])
    context = iree.runtime.SystemContext(config=iree.runtime.Config("local-task"))
    module = iree.runtime.VmModule.copy_buffer(context.instance, code)
    context.add_vm_module(module)
    found = np.asarray(context.modules[module.name].main(x))[:4]
    print(size, "IREE", found.tolist(), "XLA", np.asarray(convert(x))[:4].tolist())' | tee found
grep -q '^4 IREE \[-56, 56, 5, 0\] XLA \[127, -128, 5, 0\]' found
grep -q '^8 IREE \[127, -128, 5, -128\] XLA \[127, -128, 5, 0\]' found
