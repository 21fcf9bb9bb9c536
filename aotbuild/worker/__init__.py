"""The child process of a build: it imports the user's code, traces, lowers and compiles it.

`build.protocol` describes how it talks with the build. Nothing else in a build imports the user's
code or starts jax.
"""
