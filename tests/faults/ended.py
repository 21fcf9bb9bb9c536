"""How an experiment may end: with what was asked for, or with one clear error of aotbuild."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from support.processes import ROOT, clean_environment

LIMIT = 120  # seconds; more is a hang
# What no error of ours says: an error that nobody foresaw, or half of one.
NEVER = ("Traceback (most recent call last)", "please report", "Segmentation fault", "core dumped")
# docs/reference/cli.md, "Exit codes"; 1 is an error that nobody foresaw.
REFUSALS = range(2, 7)


def command(
    *args: object, cwd: Path | None = None, first: Callable[[], Any] | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run `aotbuild ARGS` in a process of its own, as users do; AssertionError if it hangs.

    `first` is called in it before. Variables are those of `clean_environment`.
    """
    words = [sys.executable, "-m", "aotbuild.cli", *map(str, args)]
    variables = {"AOTBUILD_STORE": "off", "PYTHONPATH": str(ROOT), **env}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # jax warns of forks, though exec follows
            return subprocess.run(
                words,
                cwd=cwd,
                env=clean_environment(**variables),
                capture_output=True,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                timeout=LIMIT,
                preexec_fn=first,
            )
    except subprocess.TimeoutExpired as hang:
        msg = f"{' '.join(words)}: hangs\n{hang.stdout!r}\n{hang.stderr!r}"
        raise AssertionError(msg) from hang


def assert_refused(ended: Any, *says: str, codes: Iterable[int] = REFUSALS) -> None:
    """Check that a command ended with a documented exit code and an error that says all of this.

    `ended` is what `command` or `support.cli.invoke` returns.
    """
    code, text = _code_and_text(ended)
    assert code in codes, f"exit code {code}\n{text}"
    _assert_no_accident(text)
    missing = [words for words in says if words not in text]
    assert not missing, f"does not say {missing}\n{text}"


def assert_done(ended: Any) -> None:
    """Check that a command did what it was asked for."""
    code, text = _code_and_text(ended)
    assert code == 0, f"exit code {code}\n{text}"
    _assert_no_accident(text)


def files_in(folder: Path) -> set[str]:
    """Return the paths of all that is in a folder, hidden files included."""
    found: set[str] = set()
    for place, folders, files in os.walk(folder):
        found.update(os.path.relpath(Path(place, name), folder) for name in (*folders, *files))
    return found


def _code_and_text(ended: Any) -> tuple[int, str]:
    if isinstance(ended, subprocess.CompletedProcess):
        return ended.returncode, ended.stdout + ended.stderr
    return ended.exit_code, ended.output


def _assert_no_accident(text: str) -> None:
    found = [words for words in NEVER if words in text]
    assert not found, text
