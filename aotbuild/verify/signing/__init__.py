"""Signing a package, and checking who signed it."""
