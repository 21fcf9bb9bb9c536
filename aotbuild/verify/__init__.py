"""Proving a package on this machine: its archive, its files, and every executable that fits."""
