"""The command `aotbuild`, also as `python -m aotbuild.cli`.

It needs nothing but the standard library to say which package is missing.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from aotbuild.cli import exit_codes


def main() -> NoReturn:
    """Run the command line and exit with one of `exit_codes`."""
    try:
        from aotbuild.cli.app import app  # imports click, which may be missing

        app(prog_name="aotbuild")
    except ModuleNotFoundError as err:
        missing = exit_codes.missing_extra(err)
        if missing is None:
            raise
        sys.stderr.write(
            f"aotbuild: the command line needs {missing}, which is not installed; "
            "install aotbuild[build]\n"
        )
        sys.exit(exit_codes.USAGE)
    except KeyboardInterrupt:
        sys.exit(exit_codes.INTERRUPTED)
    sys.exit(exit_codes.OK)


if __name__ == "__main__":
    main()
