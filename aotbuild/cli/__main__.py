"""The command `aotbuild`, also as `python -m aotbuild`.

Little is imported before signals are handled: importing all commands takes half a second.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from aotbuild.build.interrupts import end_on_signals
from aotbuild.cli.ending import ended_early, flush_all, open_streams, put


def main() -> NoReturn:
    """Run the command line and exit with one of `exit_codes`."""
    try:
        code = _main()
    except KeyboardInterrupt as err:  # at any moment at which no command handles it
        code, line = ended_early(err)
        put(sys.stderr, f"{line}\n", flush=True)
        flush_all()
    # If Ctrl-C came while a text was executed, as dataclasses do, Python would still end by the
    # signal, unless another text was executed since.
    exec("")  # noqa: S102
    sys.exit(code)


def _main() -> int:
    open_streams()
    end_on_signals()
    try:
        code = _run()
    except SystemExit as end:  # --help, --version, and wrong arguments
        code = int(end.code or 0)
    except KeyboardInterrupt:
        raise
    except BaseException:
        flush_all()
        raise
    if problem := flush_all():
        from aotbuild.cli.exit_codes import FILES

        put(sys.stderr, f"{problem.filename}: {problem.strerror}\n", flush=True)
        code = code or FILES
    return code


def _run() -> int:
    try:
        from aotbuild.cli.app import run

        return run(sys.argv[1:])
    except ModuleNotFoundError as err:
        from aotbuild.cli import exit_codes, github
        from aotbuild.cli.output import say

        missing = exit_codes.missing_extra(err)
        if missing is None:
            raise
        text = f"this command needs {missing[0]}, which is not installed; install {missing[1]}"
        say(f"aotbuild: {text}")
        github.tell("aotbuild", [github.Annotation("error", text)], None, say, os.environ)
        return exit_codes.USAGE


if __name__ == "__main__":
    main()
