"""What a plain YAML scalar means, refused where YAML 1.1 and YAML 1.2 disagree.

Plain means unquoted. The 1.2 side is the core schema (YAML 1.2.2, section 10.3.2); the 1.1 side is
PyYAML's resolver.
"""

from __future__ import annotations

import math
import re

import yaml

Value = bool | int | float | str | None

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {
    spelling: value
    for word, value in (("true", True), ("false", False))
    for spelling in (word, word.capitalize(), word.upper())
}
_INT = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z")
_NAN = frozenset({".nan", ".NaN", ".NAN"})
_OCTAL_11 = re.compile(r"[-+]?0[0-9]*[1-9][0-9]*\Z")
_MOST_DIGITS = 300  # Python itself refuses to read above 4300

_TAG = "tag:yaml.org,2002:"
_KIND_11 = {
    "null": "nothing",
    "bool": "a boolean",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "timestamp": "a date",
    "merge": "a merge key",
    "value": "a default-value key",
}
_RESOLVER = yaml.resolver.Resolver()


class SurpriseError(ValueError):
    """A plain scalar that two readers of YAML take for different things."""


def read_plain(text: str) -> Value:
    """Return the value of a plain scalar, the same in YAML 1.1 and 1.2.

    Raises:
        SurpriseError: where the two differ, or a number is too long; its text says what to write.
    """
    if len(text) > _MOST_DIGITS and (_FLOAT.match(text) or _BASED.match(text)):
        msg = f"a number of {len(text)} characters; at most {_MOST_DIGITS} are read"
        raise SurpriseError(msg)
    value = _core_schema(text)
    old, new = _kind_11(text), _kind_12(value)
    if old == new and not (isinstance(value, int) and _OCTAL_11.match(text)):
        return value
    readings = f"{_KIND_11[old]} by YAML 1.1 and {_KIND_11[new]} by YAML 1.2"
    if old == new:
        readings = f"the octal {text} by YAML 1.1 and {value} by YAML 1.2"
    msg = f"{text!r} is read as {readings}; {_remedy(text, old, value)}"
    raise SurpriseError(msg)


def _core_schema(text: str) -> Value:
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INT.match(text):
        return int(text)
    if _BASED.match(text):
        return int(text, 0)
    if text in _NAN or _INFINITE.match(text):
        return float(text.replace(".", ""))
    return float(text) if _FLOAT.match(text) else text


def _kind_11(text: str) -> str:
    # YAML 1.1 also lists y and n, but no parser in use reads them as booleans, and dims have such
    # names; PyYAML and YAML 1.2 agree on text.
    tag: str = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return tag.removeprefix(_TAG)


def _kind_12(value: Value) -> str:
    kinds = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str"}
    return kinds[type(value)]


def _remedy(text: str, old: str, value: Value) -> str:
    quoted = f'write "{text}" in quotes'
    if old == "bool":
        meant = text.lower() in ("yes", "on")
        return f"{quoted} for the text, or {str(meant).lower()} for the boolean"
    if old == "merge":
        return "write the keys out, or use defaults:"
    if isinstance(value, float):
        return f"{quoted} for the text, or {_both_float(value)} for the number"
    if isinstance(value, int):
        return f"{quoted} for the text, or {value} for the number"
    return f"{quoted}{' for the text' if old in ('int', 'float') else ''}"


def _both_float(value: float) -> str:
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    mantissa += "" if "." in mantissa else ".0"
    return f"{mantissa}{e}{exponent}"
