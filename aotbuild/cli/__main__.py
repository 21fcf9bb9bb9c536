"""The command `aotbuild`, also as `python -m aotbuild`.

Little is imported before signals are handled: importing all commands takes half a second.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from aotbuild.build.interrupts import end_on_signals
from aotbuild.cli.streams import flush_all, open_streams, put

_INTERRUPTED = 130
_FILES = 6


def main() -> NoReturn:
    """Run the command line and exit with one of `exit_codes`."""
    try:
        code = _main()
    except KeyboardInterrupt:  # at a moment at which no command handles it
        put(sys.stderr, "interrupted; nothing is half-written\n", flush=True)
        flush_all()
        code = _INTERRUPTED
    # If Ctrl-C came while a text was executed, as dataclasses do, Python would still end by the
    # signal, unless another text was executed since.
    exec("")  # noqa: S102
    sys.exit(code)


def _main() -> int:
    open_streams()
    end_on_signals()
    try:
        from aotbuild.cli.app import run

        code = run(sys.argv[1:])
    except SystemExit as end:  # --help, --version, and wrong arguments
        code = int(end.code or 0)
    except KeyboardInterrupt:
        raise
    except BaseException:
        flush_all()
        raise
    if problem := flush_all():
        put(sys.stderr, f"{problem.filename}: {problem.strerror}\n", flush=True)
        code = code or _FILES
    return code


if __name__ == "__main__":
    main()
