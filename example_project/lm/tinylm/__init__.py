"""Write text with a small language model."""

__version__ = "0.1.0"
