#!/usr/bin/env bash
# IREE 3.13.0 for CPUs: stablehlo.power, atan2 and cbrt of f32, as jax.numpy exports them.
#
# Guess: these follow C, as numpy's and XLA's do: (-2)**3 is -8, 0**0 is 1, the angle of (0, 0) is 0,
# and the cube root of infinity is infinity.
#
# Seen: all four are NaN. Every negative base is, also with whole exponents, and so is atan2(inf, inf).
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check \
    iree-base-compiler==3.13.0 iree-base-runtime==3.13.0 numpy==2.4.6
env/bin/python -c '
import iree.compiler, iree.runtime, numpy as np
def run(operation, *arguments):
    n = len(arguments[0])
    kind, names = f"tensor<{n}xf32>", [f"%x{i}" for i in range(len(arguments))]
    taken = ", ".join(f"{name}: {kind}" for name in names)
    text = f"""module @m {{ func.func public @main({taken}) -> {kind} {{
      %y = stablehlo.{operation} {", ".join(names)} : {kind}
      return %y : {kind} }} }}"""
    options = ["--iree-llvmcpu-target-cpu=generic"]
    code = iree.compiler.compile_str(
        text, target_backends=["llvm-cpu"], input_type="stablehlo", extra_args=options)
    context = iree.runtime.SystemContext(config=iree.runtime.Config("local-task"))
    context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, code))
    return np.asarray(context.modules.m.main(*(np.array(a, np.float32) for a in arguments)))
print("power", run("power", [2, -2, -2, 0], [3, 3, 2, 0]), "right: 8 -8 4 1")
print("atan2", run("atan2", [1, 0, np.inf], [1, 0, np.inf]), "right: 0.785 0 0.785")
print("cbrt", run("cbrt", [8, np.inf], ), "right: 2 inf")' | tee found
grep -Eq '^power \[ *8\. +nan +nan +nan\]' found
grep -Eq '^atan2 \[0\.785[0-9]* +nan +nan\]' found
grep -Eq '^cbrt \[2\.[0-9]* +nan\]' found
