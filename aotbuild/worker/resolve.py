"""From `module:qualname` to an object, with one clear error for each way it can go wrong."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterable
from typing import Any

from aotbuild.errors import TraceRefused
from aotbuild.manifest.problems import did_you_mean
from aotbuild.worker.user_errors import user_traceback

_CORRECT = "Correct the name in the manifest: module:qualname of what can be imported from there."


def resolve(reference: str, role: str) -> Any:
    """Import what `module:qualname` names; TraceRefused names the part that is not there.

    `role` says in errors where the manifest names it, as `functions.logits.call`.
    """
    module_name, _, qualname = reference.partition(":")
    found: Any = _import(module_name, reference, role)
    place = module_name
    for part in qualname.split("."):
        found = _attribute(found, part, place, f"{role}: {reference}")
        place = f"{place}.{part}"
    return found


def resolve_function(reference: str, role: str) -> Any:
    """Import a function and take off `aotbuild.precompiled`; TraceRefused if not callable."""
    found = resolve(reference, role)
    found = getattr(found, "__aotbuild_source__", found)
    if not callable(found):
        msg = f"{role}: {reference} is not callable; expected a function, found {_kind(found)}"
        raise TraceRefused(msg)
    return found


def _attribute(owner: Any, name: str, place: str, where: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError as err:
        msg = f"{where}: {place} has no {name!r}{did_you_mean(name, dir(owner))}\n{_CORRECT}"
        raise TraceRefused(msg) from err
    except (Exception, SystemExit) as err:  # a property or a module's __getattr__ is user code
        msg = f"{where}: reading {name!r} of {place} failed\n{user_traceback(err)}"
        raise TraceRefused(msg) from err


def _import(module_name: str, reference: str, role: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as err:
        missing = err.name or ""
        if module_name == missing or module_name.startswith(f"{missing}."):
            parent, _, name = missing.rpartition(".")
            hint = did_you_mean(name, _submodules(parent))
            msg = (
                f"{role}: {reference}: no module named {missing!r} in the project or what it "
                f"uses{hint}\n{_CORRECT}"
            )
            raise TraceRefused(msg) from err
        msg = (
            f"{role}: {reference}: importing {module_name} needs {missing!r}, which is not "
            "installed in the build environment; add it to the project's dependencies or to "
            f"build-system.requires\n{user_traceback(err)}"
        )
        raise TraceRefused(msg) from err
    except (Exception, SystemExit) as err:  # user code at import may raise anything
        msg = (
            f"{role}: {reference}: importing {module_name} failed\n{user_traceback(err)}\n"
            "Mend it, or move what fails from the top of the module into a function."
        )
        raise TraceRefused(msg) from err


def _submodules(package: str) -> Iterable[str]:
    path = getattr(sys.modules.get(package), "__path__", None)
    # Without a package there are hundreds of modules, most of them not the user's.
    return [module.name for module in pkgutil.iter_modules(path)] if path else []


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
