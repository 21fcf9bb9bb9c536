"""CPUs: instruction-set levels, their features, and the code for them."""
