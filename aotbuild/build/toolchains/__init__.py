"""Toolchains that are not the running environment: resolved, locked and made by uv, then reused."""
