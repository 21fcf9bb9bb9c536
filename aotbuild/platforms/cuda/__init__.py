"""CUDA GPUs: presets, compilers, drivers and the bytes of their executables."""
