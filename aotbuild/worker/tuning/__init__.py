"""`startup: tuned`: compile with several sets of options, measure each, keep the best."""
