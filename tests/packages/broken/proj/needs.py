import surely_not_installed  # noqa: F401
