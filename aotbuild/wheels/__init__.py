"""Wheels that are there: cut in parts, joined, and labelled as variants."""
