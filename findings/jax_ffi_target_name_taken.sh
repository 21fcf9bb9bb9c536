#!/usr/bin/env bash
# jax 0.12.0.1: two packages register FFI targets under one name, and the second one is ready for it.
#
# Guess: jax.ffi.register_ffi_target raises for a name that is taken, so `try` around it is enough.
#
# Seen: it raises only where devices were used before. Else both calls return, and what fails is the
# first use of a device, anywhere: "Unable to initialize backend 'cpu'", with no CPU in this process
# from then on. The registrations wait until jax makes a client. jax 0.10.2 does the same.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check jax==0.12.0.1
ask() {
    JAX_PLATFORMS=cpu env/bin/python -c 'import jax, sys
from jaxlib.cpu import _lapack
handlers = _lapack.registrations()
if sys.argv[1] == "after": jax.devices()
def said(do):
    try: do()
    except RuntimeError as err: return str(err)[:33]
    return "fine"
def register(package): jax.ffi.register_ffi_target("cholesky", handlers[package], platform="cpu")
print(said(lambda: register("lapack_spotrf_ffi")), said(lambda: register("lapack_dpotrf_ffi")),
      said(lambda: jax.numpy.ones(2) + 1), sep=" | ")' "$1" 2>/dev/null
}
before=$(ask before) after=$(ask after)
printf 'before devices are used: %s\nafter: %s\n' "$before" "$after"
[ "$before" = "fine | fine | Unable to initialize backend 'cpu" ]
[ "$after" = 'fine | INVALID_ARGUMENT: Duplicate FFI h | fine' ]
