"""Existing wheels: splitting, merging, and labeling as variants."""
