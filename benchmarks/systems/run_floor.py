"""The floor: a process that imports numpy and jaxlib and reads the same weights. Calls nothing."""

import run_support as run

import numpy as np  # noqa: F401

run.mark("import numpy")
from jaxlib import xla_client  # noqa: F401

run.mark("import jaxlib")
run.read_arrays("--weights")
run.read_arrays("--inputs")
run.mark("weights")
run.finish_without_result()
