"""Watch a running program: what it calls, what of that is compiled, and what must not compile."""
