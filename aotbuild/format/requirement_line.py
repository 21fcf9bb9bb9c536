"""Requirements as lines of a file for uv: what such a line must not hold."""

from __future__ import annotations


def line_problem(text: str) -> str | None:
    """Return what of a requirement uv would not take as it stands, None if nothing.

    A line break would begin an option or another requirement; `packaging` takes one in a URL, as
    any character but a space and a tab. A backslash joins a line with the next. And uv replaces
    `${NAME}` by an environment variable, which would then be sent to a server and printed.
    """
    if not text.isprintable():  # also not with U+0085, U+2028, or another space than " "
        return "has a line break, a control character or an odd space"
    if "$" in text:
        return "has a '$', which would name an environment variable; write %24 in a URL"
    if "\\" in text:
        return "has a backslash"
    return None
