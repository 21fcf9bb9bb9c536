"""Where jobs run: worker processes of this machine, Dask, Slurm, or any other executor."""
