"""The user's function: import it by name, and bind the manifest's arguments to its parameters."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format.signature import Function, Static
from aotbuild.format.values import NotEncodable, encode
from aotbuild.format.words import did_you_mean
from aotbuild.worker.user_errors import mesh_remedy, user_traceback

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
# How much of a signature is shown, in characters.
_LONGEST = 200
_MISSING_LIBRARY = (
    "Add what provides it to the project's dependencies in pyproject.toml, or to those of the "
    "build hook if only the build needs it; builds with isolation install that. `aotbuild build` "
    "and builds without isolation install nothing: install it yourself where they run."
)
_CORRECT = "Correct the name in the manifest: module:qualname of what can be imported from there."


@dataclass(frozen=True)
class Binding:
    """A function and its parameters: `function` as the index describes it, and static values."""

    function: Function
    statics: tuple[tuple[str, Any], ...]
    signature: inspect.Signature

    def static_values(self) -> tuple[tuple[str, Any], ...]:
        """Return (name, encoded value) of every static argument, sorted by name."""
        return tuple(sorted((name, encode(value)) for name, value in self.statics))


def resolve(reference: str, role: str) -> Any:
    """Import what `module:qualname` names; TraceRefused names the part that does not exist.

    `role` is its place in the manifest for errors, as `functions.logits.call`.
    """
    module_name, _, qualname = reference.partition(":")
    found: Any = import_named(module_name, reference, role)
    place = module_name
    for part in qualname.split("."):
        found = _attribute(found, part, place, f"{role}: {reference}")
        place = f"{place}.{part}"
    return found


def resolve_function(reference: str, role: str) -> Any:
    """Import a function, without `aotbuild.precompiled`; TraceRefused if not callable."""
    found = resolve(reference, role)
    found = getattr(found, "__aotbuild_source__", found)
    if not callable(found):
        kind = f"{type(found).__module__}.{type(found).__qualname__}"
        msg = f"{role}: {reference} is not callable; expected a function, found {kind}"
        raise TraceRefused(msg)
    return found


def bind(job: Job, function: Any, wrap: str = "") -> Binding:
    """Match a job's arguments with a function's parameters; TraceRefused if they differ."""
    signature = _signature(job, function)
    parameters = list(signature.parameters.values())
    positional = [p.name for p in parameters if p.kind in _POSITIONAL]
    statics = [(_static_name(job, name, positional, signature), v) for name, v in job.statics]
    if len({name for name, _ in statics}) < len(statics):
        names = [name for name, _ in statics]
        twice = sorted({name for name in names if names.count(name) > 1})
        where = f"functions.{job.name}.static: {job.call}{_shown(signature)}"
        msg = f"{where}: one parameter is given by name and by position ({', '.join(twice)})"
        raise TraceRefused(msg)
    every = job.parameters
    static_names = {_static_name(job, each, positional, signature) for each in every.statics}
    lacking = static_names.difference(name for name, _ in statics)
    statics += [(name, _static_default(job, name, signature)) for name in sorted(lacking)]
    if wrap and every.optional:
        msg = (
            f"functions.{job.name}.signatures: under {wrap} all signatures have the same arguments;"
            f" some lack {', '.join(every.optional)}\nMake two functions of it."
        )
        raise TraceRefused(msg)
    slots = [name for name in positional if name not in static_names]
    _check_arguments(job, signature, slots, static_names)
    dynamic = every.args
    used = {*dynamic, *every.kwargs, *static_names}
    last = max((i for i, name in enumerate(positional) if name in used), default=-1)
    order = (*positional[: last + 1], *(n for n in dynamic if n not in positional))
    described = Function(
        name=job.name,
        call=job.call,
        positional=tuple(order),
        dynamic=dynamic,
        keywords=every.kwargs,
        statics=tuple(_static(name, signature) for name in sorted(static_names)),
        donate=job.function.donate,
        wrap=wrap,
        optional=every.optional,
    )
    return Binding(described, tuple(statics), signature)


def call_arguments(
    binding: Binding, args: dict[str, Any], kwargs: dict[str, Any], statics: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return (args, kwargs) for the user's function, static values included."""
    parameters = binding.signature.parameters
    named = {**args, **kwargs, **statics}
    extra = {name: named[name] for name in named if name not in _named(binding.signature)}
    ordered: OrderedDict[str, Any] = OrderedDict()
    for name, parameter in parameters.items():
        if parameter.kind == Parameter.VAR_POSITIONAL:
            rest = tuple(extra.pop(key) for key in args if key in extra)
            # BoundArguments would pass an empty one by keyword after a parameter that is left out.
            ordered.update({name: rest} if rest else {})
        elif parameter.kind == Parameter.VAR_KEYWORD:
            ordered[name] = extra
        elif name in named:
            ordered[name] = named[name]
    bound = inspect.BoundArguments(binding.signature, ordered)
    return bound.args, bound.kwargs


def _attribute(owner: Any, name: str, place: str, where: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError as err:
        msg = f"{where}: {place} has no {name!r}{did_you_mean(name, dir(owner))}\n{_CORRECT}"
        raise TraceRefused(msg) from err
    except BaseException as err:  # a property or a module's __getattr__ is user code
        msg = f"{where}: reading {name!r} of {place} failed\n{user_traceback(err)}"
        raise TraceRefused(msg) from err


def import_named(module_name: str, reference: str, role: str) -> Any:
    """Import a module that a reference in the manifest names; TraceRefused says why it fails.

    Where the module itself fails, the text names no entry: it is one failure of all that need it.
    """
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
            f"importing {module_name} needs {missing!r}, which is not installed in the build "
            f"environment\n{user_traceback(err)}\n{_MISSING_LIBRARY}"
        )
        raise TraceRefused(msg) from err
    except BaseException as err:  # user code at import may raise anything
        remedy = mesh_remedy(err) or (
            "Mend it, or move what fails from the top of the module into a function."
        )
        msg = f"importing {module_name} failed\n{user_traceback(err)}\n{remedy}"
        raise TraceRefused(msg) from err


def _submodules(package: str) -> Iterable[str]:
    path = getattr(sys.modules.get(package), "__path__", None)
    # Without a package there are hundreds of modules, most of them not the user's.
    return [module.name for module in pkgutil.iter_modules(path)] if path else []


def _named(signature: inspect.Signature) -> dict[str, Parameter]:
    """Return the parameters other than *args and **kwargs."""
    return {n: p for n, p in signature.parameters.items() if p.kind not in _VARIADIC}


def _signature(job: Job, function: Any) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as err:
        msg = f"functions.{job.name}: {job.call} has no readable signature ({err}); wrap it in def"
        raise TraceRefused(msg) from err


def _static_name(
    job: Job, given: str | int, positional: list[str], signature: inspect.Signature
) -> str:
    if isinstance(given, int):
        if given >= len(positional):
            msg = (
                f"functions.{job.name}.static: position {given} is outside the "
                f"{len(positional)} positional parameters of {job.call}{_shown(signature)}"
            )
            raise TraceRefused(msg)
        return positional[given]
    if given not in _named(signature) and not _takes(signature, Parameter.VAR_KEYWORD):
        hint = did_you_mean(given, _named(signature))
        where = f"functions.{job.name}.static: {job.call}{_shown(signature)}"
        msg = f"{where} has no parameter {given!r}{hint}"
        raise TraceRefused(msg)
    return given


def _static_default(job: Job, name: str, signature: inspect.Signature) -> Any:
    """Return what calls have for a static argument that another signature of the manifest gives."""
    static = _static(name, signature)
    if not static.has_default:
        msg = (
            f"functions.{job.name}.signatures: {job.label} has no value of the static argument "
            f"{name!r}, which others have, and {job.call} has no default for it that can be "
            "compared\nGive its value under static:."
        )
        raise TraceRefused(msg)
    return signature.parameters[name].default


def _static(name: str, signature: inspect.Signature) -> Static:
    parameter = signature.parameters.get(name)
    if parameter is None or parameter.default is Parameter.empty:
        return Static(name)
    try:
        return Static(name, encode(parameter.default))
    except NotEncodable:
        return Static(name)


def _check_arguments(
    job: Job, signature: inspect.Signature, slots: list[str], statics: set[str]
) -> None:
    """Refuse a wrong number, order or name of arguments; the error shows the signature."""
    for option, problem in _problems(signature, [*job.args], [*job.kwargs], slots, statics):
        msg = f"functions.{job.name}.{option}: {job.call}{_shown(signature)} {problem}"
        raise TraceRefused(msg)


def _problems(
    signature: inspect.Signature,
    args: list[str],
    kwargs: list[str],
    slots: list[str],
    statics: set[str],
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with arguments, and the option that gives them."""
    parameters = _named(signature)
    kinds = {name: parameter.kind for name, parameter in parameters.items()}
    for name in args:
        if kinds.get(name) == Parameter.KEYWORD_ONLY:
            yield "args", f"takes {name!r} by name only; give it under kwargs"
    for name in kwargs:
        if kinds.get(name) == Parameter.POSITIONAL_ONLY:
            yield "kwargs", f"takes {name!r} by position only; give it under args"
        if name not in parameters and not _takes(signature, Parameter.VAR_KEYWORD):
            yield "kwargs", f"has no parameter {name!r}{did_you_mean(name, parameters)}"
    for name, slot in zip(args, slots, strict=False):
        if name != slot:
            yield "args", f"expected {slot!r} at this place, found {name!r}; args are positional"
    if len(args) > len(slots) and not _takes(signature, Parameter.VAR_POSITIONAL):
        counts = f"takes {len(slots)} array arguments by position, the manifest gives {len(args)}"
        yield "args", f"{counts}: {', '.join(args)}"
    required = (name for name, each in parameters.items() if each.default is Parameter.empty)
    missing = [repr(name) for name in required if name not in {*args, *kwargs, *statics}]
    if missing:
        text = f"needs {', '.join(missing)}, which the manifest does not give; add it there, or to"
        yield "args", f"{text} static:"


def _shown(signature: inspect.Signature) -> str:
    """Return a signature for people, cut: a default may be a whole array."""
    text = str(signature)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…)"


def _takes(signature: inspect.Signature, kind: Any) -> bool:
    return any(parameter.kind == kind for parameter in signature.parameters.values())
