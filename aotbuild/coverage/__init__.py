"""Coverage: what of the calls that programs made is compiled, and what is compiled for nothing."""
