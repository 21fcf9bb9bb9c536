"""The entry point: `aotbuild`. Needs nothing but the standard library to say what is missing."""

from __future__ import annotations

import sys
from typing import NoReturn

from aotbuild.cli import exit_codes

# Import names of what the extra `build` brings and the command line uses.
_EXTRA = frozenset({"click", "packaging", "pydantic", "pydantic_core", "rich", "yaml"})


def main() -> NoReturn:
    """Run the command line and exit with one of `exit_codes`."""
    try:
        from aotbuild.cli.app import app

        app(prog_name="aotbuild")
    except ModuleNotFoundError as err:
        if not is_missing_extra(err):
            raise
        sys.stderr.write(
            f"aotbuild: the command line needs {_top_level(err)}, which is not installed; "
            "install aotbuild[build]\n"
        )
        sys.exit(exit_codes.USAGE)
    except KeyboardInterrupt:
        sys.exit(exit_codes.INTERRUPTED)
    sys.exit(exit_codes.OK)


def is_missing_extra(error: BaseException) -> bool:
    """Return whether an import failed because the extra `build` is not installed."""
    return isinstance(error, ModuleNotFoundError) and _top_level(error) in _EXTRA


def _top_level(error: ModuleNotFoundError) -> str:
    return (error.name or "").partition(".")[0]
