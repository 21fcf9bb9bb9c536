"""Direct mode: a job whose inputs are those of an earlier build is neither imported nor traced.

`outer` is what is known of a job before anything is read, `world` what can be read now, `entries`
what the store keeps, and `mode` looks a job up before it is given to a worker.
"""
