"""Toolchains: the exact versions that compile, their locks, and their environments, by uv."""
