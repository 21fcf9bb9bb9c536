"""What names, versions and scalars of a manifest may look like: one small check each.

Each check returns its value, or raises a `PydanticCustomError` whose text is shown as it is.
"""

from __future__ import annotations

import keyword
import math
import re
from typing import Any

from packaging.version import InvalidVersion, Version

from aotbuild.format.padding import one_nan
from aotbuild.format.signature import LIBRARY_NAMES
from aotbuild.format.values import decode, is_plain
from aotbuild.format.words import did_you_mean, quote
from aotbuild.platforms.building import descriptions
from aotbuild.platforms.options import refuse

_CALL = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\Z", re.ASCII)
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\Z", re.ASCII)
_PYTHON = re.compile(r"3\.(?:0|[1-9][0-9]?)\Z")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OPTION_PREFIXES = tuple(p for known in descriptions() for p in known.option_prefixes)
_DEVICE_PREFIXES = tuple(p for known in descriptions() for p in known.device_prefixes)
_CHECK = re.compile(r"platform\Z|custom_call:[^\s]{1,200}\Z")


# Characters of a name: of what becomes a file's name, or stands in each message.
MAX_NAME = 255
_MOST_OF_VERSION, _MOST_OF_REFERENCE = 50, 1000


def too_long(text: str, most: int = MAX_NAME) -> str | None:
    """Return what is wrong with a text of more characters than it may have."""
    if len(text) <= most:
        return None
    return f"{quote(text)} has {len(text)} characters; at most {most} are possible"


def _check_length(text: str, most: int = MAX_NAME) -> None:
    if problem := too_long(text, most):
        refuse(problem)


def is_identifier(name: object) -> bool:
    """Return whether a name can be written in Python: ASCII, and not a keyword."""
    return (
        isinstance(name, str)
        and name.isascii()
        and name.isidentifier()
        and not keyword.iskeyword(name)
    )


def identifier(name: str) -> str:
    """Check a name of an argument, dim or mesh axis."""
    if not is_identifier(name):
        refuse(f"{quote(name)} is not a Python identifier in ASCII")
    _check_length(name)
    return name


def function_name_problem(name: str) -> str | None:
    """Return what is wrong with a name under ``functions:``; it becomes an attribute."""
    if not is_identifier(name):
        return f"{quote(name)} is not a Python identifier in ASCII"
    if name.startswith("_"):
        return f"{quote(name)} begins with an underscore; choose a public name"
    if name in LIBRARY_NAMES:
        return f"{quote(name)} is a name of the Library itself; choose another one"
    return too_long(name)


def package_name(name: str) -> str:
    """Check a dotted import name."""
    _check_length(name)
    if not _DOTTED.match(name) or any(map(keyword.iskeyword, name.split("."))):
        hint = f" (did you mean {name.replace('-', '_')!r}?)" if "-" in name else ""
        refuse(f"expected the name of an import package, found {quote(name)}{hint}")
    return name


def call_reference(text: str) -> str:
    """Check ``module:qualname``; nothing is imported."""
    if problem := reference_problem(text):
        refuse(problem)
    return text


def reference_problem(text: object) -> str | None:
    """Return what is wrong with a value that should be ``module:qualname``, else None."""
    words = re.split(r"[.:]", text) if isinstance(text, str) and _CALL.match(text) else None
    if words and not any(map(keyword.iskeyword, words)):
        return too_long(str(text), _MOST_OF_REFERENCE)
    head, dot, tail = str(text).rpartition(".")
    guess = f"{head}:{tail}"
    hint = f" (did you mean {guess!r}?)" if dot and _CALL.match(guess) else ""
    return f"expected module:qualname, found {quote(text)}{hint}"


def jax_version(text: str) -> str:
    """Check one exact version (PEP 440)."""
    _check_length(text, _MOST_OF_VERSION)
    try:
        Version(text)
    except InvalidVersion:
        found = f"expected one exact version such as '0.10.2', found {quote(text)}"
        refuse(found)
    return text


def python_version(text: str) -> str:
    """Check a Python version of two numbers."""
    if not _PYTHON.match(text):
        refuse(f"expected a version such as '3.11', found {quote(text)}")
    return text


def scalar(value: Any) -> Any:
    """Check a value of ``config``: one finite scalar."""
    if not isinstance(value, None | bool | int | float | str):
        refuse("expected one scalar value, not a list or map")
    if isinstance(value, float) and not math.isfinite(value):
        refuse("expected a finite number")
    return value


def pad_value(value: Any) -> Any:
    """Check a value that arrays are padded with: a number, also .nan and .inf, or a boolean."""
    number = decode(value) if is_plain(value) else None
    if not isinstance(number, bool | int | float):
        refuse("expected a number or a boolean to pad with")
    return one_nan(number)


def option_value(value: Any) -> Any:
    """Check a value of ``compiler_options``: one finite scalar, not null."""
    if value is None:
        refuse("expected one scalar value, found nothing (null)")
    return scalar(value)


def config_name(name: str) -> str:
    """Check the name of a jax configuration option."""
    if not name.startswith("jax_") or not is_identifier(name):
        hint = f" (did you mean {'jax_' + name!r}?)" if is_identifier(name) else ""
        refuse(f"a config name begins with 'jax_', found {quote(name)}{hint}")
    return name


def env_name(name: str) -> str:
    """Check the name of an environment variable."""
    if not _ENV.match(name):
        refuse(f"expected the name of an environment variable, found {quote(name)}")
    if name.startswith("JAX_"):
        refuse(f"{name} is set by aotbuild; give jax's options under config:")
    # What TF_XLA_FLAGS and LIBTPU_INIT_ARGS say would be in no record and in no key of the store.
    if name.startswith(("XLA_", "TF_XLA_", *_OPTION_PREFIXES)):
        refuse(f"{name} is set by aotbuild; give XLA's options under compiler_options:")
    if name.startswith(_DEVICE_PREFIXES):
        refuse(f"{name} is set by aotbuild, for compilers that see no device; leave it out")
    return name


def env_value(value: str) -> str:
    """Check the value of an environment variable."""
    if "\0" in value:
        refuse("an environment variable cannot hold a NUL character")
    return value


def disabled_check(text: str) -> str:
    """Check the name of a safety check of jax.export."""
    if not _CHECK.match(text):
        hint = did_you_mean(text, ["platform"])
        refuse(f"expected platform or custom_call:NAME, found {quote(text)}{hint}")
    return text
