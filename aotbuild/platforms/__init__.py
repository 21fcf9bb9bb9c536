"""What is known of each kind of hardware: one folder each, behind the seam in `base`."""
