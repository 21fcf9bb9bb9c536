"""Functions of every kind that users bring; tests/test_zoo.py builds and calls them."""
