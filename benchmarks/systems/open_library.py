"""Load one shared library and print the milliseconds and page faults as JSON."""

import ctypes
import resource
import sys
from time import perf_counter

before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
start = perf_counter()
ctypes.PyDLL(sys.argv[1])
ms = (perf_counter() - start) * 1000
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(f'{{"ms": {ms}, "faults": {faults}}}')
