"""The command `aotbuild`, also as `python -m aotbuild`."""

from __future__ import annotations

import errno
import os
import sys
from typing import NoReturn

from aotbuild.cli import exit_codes


def main() -> NoReturn:
    """Run the command line and exit with one of `exit_codes`."""
    try:
        from aotbuild.cli.app import run

        code = run(sys.argv[1:])
        sys.stdout.flush()
    except ModuleNotFoundError as err:
        missing = exit_codes.missing_extra(err)
        if missing is None:
            raise
        sys.stderr.write(
            f"aotbuild: this command needs {missing[0]}, which is not installed; "
            f"install {missing[1]}\n"
        )
        sys.exit(exit_codes.USAGE)
    except KeyboardInterrupt:
        sys.exit(exit_codes.INTERRUPTED)
    except OSError as err:
        if err.errno != errno.EPIPE:
            raise
        # The reader of stdout has left. Python would try to flush it once more, at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(exit_codes.INTERNAL)
    sys.exit(code)


if __name__ == "__main__":
    main()
