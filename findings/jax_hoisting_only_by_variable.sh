#!/usr/bin/env bash
# jax 0.12.0.1: jax_use_simplified_jaxpr_constants, which makes arrays that a function closes over
# inputs of the executable instead of parts of it.
#
# Guess: jax.config.update before the first trace does what JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS=1 does.
#
# Seen: the option then reads True, and the 4 MB array is still embedded: the executable takes 4,000
# bytes of arguments. With the variable it takes 4,004,000. jax reads the option while it is imported,
# for the default of a field and for what arrays register. jax 0.10.2 does the same.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check jax==0.12.0.1
cat > ask.py <<'PYTHON'
import sys, numpy as np, jax
if sys.argv[1] == "update":
    jax.config.update("jax_use_simplified_jaxpr_constants", True)
weights = np.ones((1000, 1000), np.float32)
compiled = jax.jit(lambda x: x @ weights).lower(jax.ShapeDtypeStruct((1000,), "float32")).compile()
bytes_of = compiled.memory_analysis().argument_size_in_bytes
print(jax.config.jax_use_simplified_jaxpr_constants, f"{bytes_of:,} bytes of arguments")
PYTHON
export JAX_PLATFORMS=cpu
updated=$(env/bin/python ask.py update)
variable=$(JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS=1 env/bin/python ask.py variable)
printf 'config.update: %s\nvariable:      %s\n' "$updated" "$variable"
[ "$updated" = "True 4,000 bytes of arguments" ]
[ "$variable" = "True 4,004,000 bytes of arguments" ]
