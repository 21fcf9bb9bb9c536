"""Purity: does tracing a function a second time give the same program, and what did tracing change?

The way down:

- `second_trace` is the entry. It traces again and decides.
- `compare` finds the first difference between two programs. `numbering` gives each value of a
  program a number by how it is computed; `normalize` makes parameters and constants comparable.
- `reads` watches what a trace reads from the world, and shows the second trace another world.
- `snapshot` takes the state around the function before and after each trace. `values` reads Python
  values for it without running the user's code.
- `changes` compares snapshots. `caches` puts back what libraries' objects had.
- `findings` has all of this, and puts it in words: errors and notes.
"""
