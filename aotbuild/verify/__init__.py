"""Verification of a package on this machine: its archive, its files, its executables."""
