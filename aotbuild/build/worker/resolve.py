"""From `module:qualname` to an object, with one clear error for each way it can go wrong."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from typing import Any

from aotbuild.errors import TraceRefused


def resolve(reference: str, role: str) -> Any:
    """Import what `module:qualname` names; TraceRefused names the part that is not there.

    `role` says in errors where the manifest names it, as `functions.logits.call`.
    """
    module_name, _, qualname = reference.partition(":")
    found: Any = _import(module_name, reference, role)
    for part in qualname.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(part, dir(found), n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            msg = f"{role}: {reference}: {module_name} has no {qualname!r}{hint}"
            raise TraceRefused(msg)
        found = getattr(found, part)
    return found


def resolve_function(reference: str, role: str) -> Any:
    """Import a function and take off `aotbuild.precompiled`; TraceRefused if not callable."""
    found = resolve(reference, role)
    found = getattr(found, "__aotbuild_source__", found)
    if not callable(found):
        msg = f"{role}: {reference} is not callable; expected a function, found {_kind(found)}"
        raise TraceRefused(msg)
    return found


def _import(module_name: str, reference: str, role: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as err:
        missing = err.name or ""
        if module_name == missing or module_name.startswith(f"{missing}."):
            msg = f"{role}: {reference}: no module named {missing!r} in the project or what it uses"
            raise TraceRefused(msg) from err
        msg = (
            f"{role}: {reference}: importing {module_name} needs {missing!r}, which is not "
            "installed in the build environment; add it to the project's dependencies or to "
            "build-system.requires"
        )
        raise TraceRefused(msg) from err
    except (Exception, SystemExit) as err:  # user code at import may raise anything
        msg = f"{role}: {reference}: importing {module_name} failed\n{user_traceback(err)}"
        raise TraceRefused(msg) from err


def user_traceback(error: BaseException) -> str:
    """Return where the user's own code raised, without the frames of jax and of this worker."""
    frames = traceback.extract_tb(error.__traceback__)
    hidden = (*_package_folders(), "<frozen importlib")
    kept = [frame for frame in frames if not frame.filename.startswith(hidden)]
    where = "".join(f"  at {f.filename}:{f.lineno} in {f.name}\n" for f in kept[-5:])
    return f"{where}{type(error).__name__}: {str(error).strip()}"


def _package_folders() -> tuple[str, ...]:
    modules = (sys.modules.get(name) for name in ("jax", "jaxlib", "aotbuild", "importlib"))
    return tuple(f"{os.path.dirname(m.__file__)}{os.sep}" for m in modules if m and m.__file__)


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
