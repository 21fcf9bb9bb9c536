"""`python -m aotbuild.cli` is the command `aotbuild`."""

from aotbuild.cli.main import main

if __name__ == "__main__":
    main()
