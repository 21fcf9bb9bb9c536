"""What the hooks tell GitHub Actions: it does not show the output of pip's builds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path


def tell_ci(
    lines: Iterable[str],
    error: Exception | None,
    manifest: Path | None,
    say: Callable[[str], object],
) -> None:
    """Let GitHub show an error beside the code, and lines on the page of the job."""
    if "GITHUB_ACTIONS" not in os.environ:
        return
    from aotbuild.cli.github import of_error, tell
    from aotbuild.cli.markdown import Markdown

    summary = Markdown()
    for line in (*lines, *([str(error)] if error else ())):
        summary.line(line)
    found = of_error(error, str(error), manifest) if error else []
    tell("aotbuild build", found, summary, say, os.environ)
