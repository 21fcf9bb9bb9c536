"""The command `aotbuild`, also as `python -m aotbuild`."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from aotbuild.cli import exit_codes, github
from aotbuild.cli.ending import end_on_sigterm, flush_all
from aotbuild.cli.output import say


def main() -> NoReturn:
    """Run the command line and exit with one of `exit_codes`."""
    end_on_sigterm()
    try:
        code = _run()
    except BaseException:
        flush_all()
        raise
    if problem := flush_all():
        say(f"{problem.filename}: {problem.strerror}")
        code = code or exit_codes.FILES
    sys.exit(code)


def _run() -> int:
    try:
        from aotbuild.cli.app import run

        return run(sys.argv[1:])
    except ModuleNotFoundError as err:
        missing = exit_codes.missing_extra(err)
        if missing is None:
            raise
        text = f"this command needs {missing[0]}, which is not installed; install {missing[1]}"
        say(f"aotbuild: {text}")
        github.tell("aotbuild", [github.Annotation("error", text)], None, say, os.environ)
        return exit_codes.USAGE
    except KeyboardInterrupt as err:
        return exit_codes.code_of(err)


if __name__ == "__main__":
    main()
