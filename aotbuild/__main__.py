"""`python -m aotbuild`: the command line."""

from aotbuild.cli.__main__ import main

if __name__ == "__main__":
    main()
