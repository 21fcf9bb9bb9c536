"""The group of commands, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import errno
import os
import traceback
from typing import Any

import click

from aotbuild.cli.build import build
from aotbuild.cli.diff import diff
from aotbuild.cli.doctor import doctor
from aotbuild.cli.exit_codes import INTERNAL, INTERRUPTED, code_of, missing_extra
from aotbuild.cli.inspect import inspect
from aotbuild.cli.keygen import keygen
from aotbuild.cli.lock import lock
from aotbuild.cli.merge import merge
from aotbuild.cli.output import Output, error_document
from aotbuild.cli.plan import plan
from aotbuild.cli.sbom import sbom
from aotbuild.cli.schema import schema
from aotbuild.cli.sign import sign
from aotbuild.cli.split import split
from aotbuild.cli.tune import tune
from aotbuild.cli.verify import verify

_CLICKS_OWN = (click.ClickException, click.exceptions.Exit, click.Abort)


class App(click.Group):
    """A group whose commands fail with a message on stderr and a documented exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; with `--json` its document is printed once, whatever happened."""
        output = ctx.obj = Output()
        try:
            result = super().invoke(ctx)
        except _CLICKS_OWN:
            raise
        except (Exception, KeyboardInterrupt) as err:
            if missing_extra(err) or getattr(err, "errno", None) == errno.EPIPE:
                raise
            code, message = code_of(err), _message(err)
            if os.environ.get("AOTBUILD_DEBUG") == "1":
                click.echo("".join(traceback.format_exception(err)), err=True, nl=False)
            click.echo(message, err=True)
            output.finish(error_document(err, code, message))
            raise click.exceptions.Exit(code) from err
        output.finish(None)
        return result


@click.group(cls=App, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="aotbuild", prog_name="aotbuild")
def app() -> None:
    """Compile JAX functions ahead of time, as a manifest (aot.yaml) says."""


_BUILDING = (plan, build, lock, tune, schema)
_PACKAGES = (inspect, diff, sbom, keygen, sign, verify, doctor, split, merge)

for _command in (*_BUILDING, *_PACKAGES):
    app.add_command(_command)


def _message(error: BaseException) -> str:
    code = code_of(error)
    if code == INTERRUPTED:
        return "interrupted; nothing was written"
    if code == INTERNAL:
        return (
            f"unexpected error, please report it: {type(error).__name__}: {error}\n"
            "AOTBUILD_DEBUG=1 shows where it happened."
        )
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)
