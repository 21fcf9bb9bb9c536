"""Purity: does tracing a function a second time give the same program, and what did tracing change?

`second_trace` is the entry: it traces again, compares the two programs (`compare`, with values made
comparable by `normalize`), and compares the state around the function before and after each trace
(`snapshot`, which reads Python values by `values` without running the user's code).
"""
