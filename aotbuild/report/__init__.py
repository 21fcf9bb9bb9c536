"""What a package holds, read from its index alone, as text, JSON and HTML. Never imports jax."""
