"""`startup:` of the manifest: choose what an executable is compiled with.

With `tuned`, it is compiled with several sets of options. `measure` runs each of them in fresh
processes (`child`), and `choose` keeps the best one.
"""
