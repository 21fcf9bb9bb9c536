"""Commands of `aotbuild`, called in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from aotbuild.cli.app import app


def invoke(*args: object) -> Result:
    """Return how a command ended, whatever its exit code."""
    return CliRunner().invoke(app, [str(arg) for arg in args])


def run(*args: object, code: int = 0) -> Result:
    """Return how a command ended; it must be with this exit code."""
    result = invoke(*args)
    assert result.exit_code == code, result.output
    return result
