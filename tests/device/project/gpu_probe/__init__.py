"""Functions that are compiled without a GPU and called on one."""
