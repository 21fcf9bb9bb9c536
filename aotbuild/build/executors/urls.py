"""URLs of executors as errors print them: logs are read by others, and a query may have secrets."""

from __future__ import annotations

from collections.abc import Container


def shown_url(text: str, own: Container[str] = ()) -> str:
    """Return a URL whose query has no values but those of an executor's `own` options."""
    place, mark, query = text.partition("?")
    return f"{place}{mark}{'&'.join(_shown(option, own) for option in query.split('&'))}"


def _shown(option: str, own: Container[str]) -> str:
    name, mark, _ = option.partition("=")
    if name in own or not option:
        return option
    return f"{name}=…" if mark else "…"
