"""The platforms that a worker compiles for: their devices, there or not, and what they require."""
