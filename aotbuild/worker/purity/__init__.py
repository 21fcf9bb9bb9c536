"""Purity: does tracing a function a second time give the same program, and what did tracing change?

`second_trace` is the entry: it traces again, in a world with other times and random numbers
(`reads`), compares what the two programs compute (`compare`, which has the values numbered by
`numbering`, with parameters made comparable by `normalize`), and compares the state around the
function before and after each trace (`snapshot`, which reads Python values by `values` without
running the user's code).
"""
