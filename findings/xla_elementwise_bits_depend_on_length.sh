#!/usr/bin/env bash
# jax 0.12.0.1, XLA for CPUs: x * sigmoid(x) + exp(x) of the first n numbers of an array, as a server
# computes it that pads its batches.
#
# Guess: an elementwise function has no order of additions, so each element has the same bits,
# whatever is computed beside it. Only matrix products and reductions depend on the shape.
#
# Seen: for 70 of the lengths from 1 to 129 some elements differ in the last bits from those of the
# whole array of 300. For a CPU without fused multiplication and addition (SSE4_2) all are equal, so
# that the product and the sum are fused for some lengths and not for others. jax 0.10.2 does the same.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check jax==0.12.0.1
ask() {
    XLA_FLAGS="--xla_cpu_max_isa=$1" JAX_PLATFORMS=cpu env/bin/python -c '
import jax, jax.numpy as jnp, numpy as np
x = np.random.default_rng(0).random(300, np.float32) * 8 - 4
f = jax.jit(lambda x: x * jax.nn.sigmoid(x) + jnp.exp(x))
whole = np.asarray(f(x)).view(np.int32)
ulps = [int(abs(np.asarray(f(x[:n])).view(np.int32) - whole[:n]).max()) for n in range(1, 130)]
print(sum(u > 0 for u in ulps), "lengths differ, at most", max(ulps), "ulp")'
}
fused=$(ask AVX2) plain=$(ask SSE4_2)
printf 'AVX2:   %s\nSSE4_2: %s\n' "$fused" "$plain"
[ "$plain" = "0 lengths differ, at most 0 ulp" ]
[[ "$fused" == [1-9]*" lengths differ, at most "[1-9]*" ulp" ]]
