"""A wheel as an archive: the checks that come before anything in it is trusted."""
