"""A wheel as an archive: what is checked before anything in it is believed."""
