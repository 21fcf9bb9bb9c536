"""Where jobs are compiled: processes of this machine, or the workers of a Dask cluster."""
