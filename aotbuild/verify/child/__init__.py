"""The child process of `verify`, which loads, calls and compares native code."""
