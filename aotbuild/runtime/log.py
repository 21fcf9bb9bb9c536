"""The log of the library, which imports `logging` where it has something to say."""

from __future__ import annotations

from typing import Any, Literal

_MOST_CHARACTERS = 1000


def log(
    level: Literal["debug", "info", "warning"],
    event: str,
    message: str,
    err: BaseException | None = None,
    **fields: Any,
) -> None:
    """Log one line, with `err` on it, as the logger `aotbuild`.

    The record has the attributes `aotbuild_event`, `aotbuild_<name>` for each field, and for an
    error `aotbuild_error` and `aotbuild_reasons`. They are listed in the reference of the runtime.
    """
    from logging import getLogger  # most processes log nothing

    if err is not None:
        lines = [" ".join(line.split()) for line in str(err).splitlines() if line.strip()]
        text = "; ".join(lines)
        short = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
        message = f"{message}: {type(err).__name__}: {short}"
        fields |= {"error": type(err).__name__, "reasons": lines}
    extra = {"event": event, **fields}
    extra = {f"aotbuild_{name}": value for name, value in extra.items()}
    getattr(getLogger("aotbuild"), level)("%s", message, extra=extra, stacklevel=2)
