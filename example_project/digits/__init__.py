"""Classify handwritten digits with a small convolutional network."""

__version__ = "0.1.0"
