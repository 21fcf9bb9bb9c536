"""Measure what a package costs where it runs, beside what would be without it."""
