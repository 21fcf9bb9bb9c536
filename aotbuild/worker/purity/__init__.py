"""Purity: whether tracing a function again gives the same program, and what it changed."""
