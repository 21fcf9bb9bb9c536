#!/usr/bin/env bash
# jax 0.12.0.1 and IREE 3.13.0 for CPUs: a matrix product and a convolution of ones in float16 and
# bfloat16, as exported by jax with no preferred_element_type.
#
# Guess: products of half precision are added in float32 and rounded once, as XLA, cuBLAS and oneDNN do.
#
# Seen: IREE adds float16 in float16. A product of 4,096 ones is 2,048, where one more does not count;
# a convolution of 4,608 ones in bfloat16 is 256. bfloat16 products are right for AVX2 (haswell) and
# are 2,048 for any x86-64. jnp.sum is right: jax asks for float32 there.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check \
    jax==0.12.0.1 iree-base-compiler==3.13.0 iree-base-runtime==3.13.0
JAX_PLATFORMS=cpu env/bin/python -c '
import iree.compiler, iree.runtime, jax, jax.numpy as jnp, numpy as np
def run(function, dtype, cpu, *shapes):
    given = [np.ones(shape, np.float32) for shape in shapes]
    f = jax.jit(lambda *xs: function(*(x.astype(dtype) for x in xs)).astype(jnp.float32))
    code = iree.compiler.compile_str(
        jax.export.export(f)(*given).mlir_module(), target_backends=["llvm-cpu"],
        input_type="stablehlo", extra_args=[f"--iree-llvmcpu-target-cpu={cpu}"])
    context = iree.runtime.SystemContext(config=iree.runtime.Config("local-task"))
    module = iree.runtime.VmModule.copy_buffer(context.instance, code)
    context.add_vm_module(module)
    found = np.asarray(context.modules[module.name].main(*given))
    return f"IREE {found.flat[0]:g}, XLA {np.asarray(f(*given)).flat[0]:g}"
def convolve(x, w):
    return jax.lax.conv(x, w, (1, 1), "VALID")
for dtype in (jnp.float16, jnp.bfloat16):
    for cpu in ("generic", "haswell"):
        print(dtype.dtype, cpu, "dot", run(jnp.dot, dtype, cpu, (4, 4096), (4096, 8)))
    convolved = run(convolve, dtype, "generic", (1, 512, 8, 8), (4, 512, 3, 3))
    print(dtype.dtype, "convolution", convolved)' | tee found
grep -q '^float16 generic dot IREE 2048, XLA 4096' found
grep -q '^float16 haswell dot IREE 2048, XLA 4096' found
grep -q '^float16 convolution IREE 2048, XLA 4608' found
grep -q '^bfloat16 generic dot IREE 2048, XLA 4096' found
grep -q '^bfloat16 haswell dot IREE 4096, XLA 4096' found
grep -q '^bfloat16 convolution IREE 256, XLA 4608' found
