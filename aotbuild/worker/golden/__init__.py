"""Golden outputs: what plain jit makes of seeded or given inputs, kept for `aotbuild verify`."""
