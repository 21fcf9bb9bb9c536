"""Existing wheels: splitting and merging."""
