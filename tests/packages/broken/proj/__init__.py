"""Functions and modules that a build must refuse; tests/test_build_refused.py says how."""
