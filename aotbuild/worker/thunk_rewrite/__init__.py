"""Take out of an executable for CPUs what only its compiler needed, so that it loads faster."""
