"""What a job reads while it is imported, traced and called: the inputs of direct mode.

`events`, `functions` and `imports` see each open file, variable and import and tell a `reader`.
That is `by_module`, which keeps them with the modules that `owners` says are responsible.
`recorder` sums it up for one job. `natives` knows libraries for which nothing stands.
"""
