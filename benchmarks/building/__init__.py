"""What building costs: one module for each part of `benchmarks/build.py`."""
