"""Import numpy, then jaxlib; with a second argument, a thread opens jaxlib's library meanwhile.

Prints the milliseconds of both imports as JSON.
"""

import sys
from time import perf_counter

start = perf_counter()
if len(sys.argv) > 2:
    import _thread
    import ctypes

    # Called as a function, dlopen gives up Python's lock; ctypes.CDLL(path) does not in 3.11.
    dlopen = ctypes.CDLL(None).dlopen
    dlopen.restype = ctypes.c_void_p
    _thread.start_new_thread(dlopen, (sys.argv[1].encode(), 1))
import numpy as np  # noqa: F401
from jaxlib import _jax  # noqa: F401

print(f'{{"ms": {(perf_counter() - start) * 1000}}}')
