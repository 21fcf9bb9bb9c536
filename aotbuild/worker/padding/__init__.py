"""Padding: which axes follow a dim, and whether padding changes what the function returns."""
