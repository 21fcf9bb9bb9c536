"""TPU slices: topologies, and compiling for them with libtpu."""
