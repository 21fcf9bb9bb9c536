"""Everything this project claims about speed, measured by one command: `python -m benchmarks`."""
