"""The command line: one file per command. Logic is in `aotbuild.build`, printing is here."""
