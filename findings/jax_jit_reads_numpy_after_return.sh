#!/usr/bin/env bash
# jax 0.12.0.1: a jitted function on the CPU is called with a numpy array, which the caller fills with
# the next input while the result is still computed. Servers keep one such buffer.
#
# Guess: a call has read its numpy arguments when it returns; only what jax.numpy.asarray makes may
# share memory with them, and jax.device_put copies.
#
# Seen: if the array begins at a multiple of 64 bytes, the computation reads it where it lies, after
# the call has returned: the result is that of the next input, each time, for 4 bytes as for 4 MB.
# numpy promises multiples of 16 only, so the same program is right or wrong by chance. It is the
# other way around with the two functions: device_put shares memory, asarray does not.
# jax 0.10.2 reads large arrays late at any address.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check jax==0.12.0.1
found=$(JAX_PLATFORMS=cpu env/bin/python -c '
import jax, jax.numpy as jnp, numpy as np

def array(size, offset):
    bytes_ = np.zeros(4 * size + 128, np.uint8)
    start = -bytes_.ctypes.data % 64 + offset
    return bytes_[start : start + 4 * size].view(np.float32)

busy = np.ones((800, 800), np.float32)
step = jax.jit(lambda x, busy: x + 0 * jnp.linalg.matrix_power(busy, 8).sum())
for offset in (0, 16):
    for size in (1, 1_000_000):
        step(array(size, offset), busy).block_until_ready()
        seen = set()
        for _ in range(5):
            x = array(size, offset)
            result = step(x, busy)
            x[:] = 7
            seen.add(float(result[0]))
        print(f"{size} at {offset}: {sorted(seen)}")
for make in (jax.device_put, jnp.asarray):
    x = array(1, 0)
    made = make(x)
    x[:] = 7
    print(f"{make.__name__}: {float(made[0])}")')
printf '%s\n' "$found"
[ "$found" = '1 at 0: [7.0]
1000000 at 0: [7.0]
1 at 16: [0.0]
1000000 at 16: [0.0]
device_put: 7.0
asarray: 0.0' ]
