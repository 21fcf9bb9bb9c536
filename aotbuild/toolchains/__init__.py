"""Toolchains: the environments, by uv, with the exact versions that compile; and their locks."""
