"""How the manifest's arguments meet the parameters of the user's function."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.spec.function import Function, Static
from aotbuild.spec.values import NotEncodable, encode

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Binding:
    """A function with its parameters sorted out: which are arrays, which are static."""

    function: Function
    statics: tuple[tuple[str, Any], ...]
    signature: inspect.Signature

    def static_values(self) -> tuple[tuple[str, Any], ...]:
        """Return (name, encoded value) of every static argument, sorted by name."""
        return tuple(sorted((name, encode(value)) for name, value in self.statics))


def bind(job: Job, function: Any) -> Binding:
    """Match a job's arguments with a function's parameters; TraceRefused where they differ."""
    signature = _signature(job, function)
    parameters = list(signature.parameters.values())
    positional = [p.name for p in parameters if p.kind in _POSITIONAL]
    statics = [(_static_name(job, name, positional, signature), v) for name, v in job.statics]
    static_names = {name for name, _ in statics}
    slots = [name for name in positional if name not in static_names]
    _check_arguments(job, signature, slots, static_names)
    dynamic = tuple(name for name, _ in job.args)
    keywords = tuple(sorted(name for name, _ in job.kwargs))
    used = {*dynamic, *keywords, *static_names}
    last = max((i for i, name in enumerate(positional) if name in used), default=-1)
    order = (*positional[: last + 1], *(n for n in dynamic if n not in positional))
    described = Function(
        name=job.name,
        call=job.call,
        positional=tuple(order),
        dynamic=dynamic,
        keywords=keywords,
        statics=tuple(_static(name, signature) for name in sorted(static_names)),
        donate=job.donate,
    )
    return Binding(described, tuple(statics), signature)


def call_arguments(
    binding: Binding, args: dict[str, Any], kwargs: dict[str, Any], statics: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return (args, kwargs) for the user's function, static values in their places."""
    parameters = binding.signature.parameters
    named = {**args, **kwargs, **statics}
    extra = {name: value for name, value in named.items() if name not in parameters}
    ordered: OrderedDict[str, Any] = OrderedDict()
    for name, parameter in parameters.items():
        if parameter.kind == Parameter.VAR_POSITIONAL:
            ordered[name] = tuple(extra.pop(key) for key in args if key in extra)
        elif parameter.kind == Parameter.VAR_KEYWORD:
            ordered[name] = extra
        elif name in named:
            ordered[name] = named[name]
    bound = inspect.BoundArguments(binding.signature, ordered)
    return bound.args, bound.kwargs


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
                f"{len(positional)} positional parameters of {job.call}{signature}"
            )
            raise TraceRefused(msg)
        return positional[given]
    takes_any = any(p.kind == Parameter.VAR_KEYWORD for p in signature.parameters.values())
    if given not in signature.parameters and not takes_any:
        msg = f"functions.{job.name}.static: {job.call}{signature} has no parameter {given!r}"
        raise TraceRefused(msg)
    return given


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
    """Refuse a wrong number, order or name of arguments, naming the function's own signature."""
    kinds = {p.kind for p in signature.parameters.values()}
    names = [name for name, _ in job.args]
    given = {*names, *(name for name, _ in job.kwargs), *statics}
    where = f"functions.{job.name}.args: {job.call}{signature}"
    if len(names) > len(slots) and Parameter.VAR_POSITIONAL not in kinds:
        msg = f"{where} takes {len(slots)} array arguments by position, the manifest gives "
        raise TraceRefused(f"{msg}{len(names)}: {', '.join(names)}")
    for name, slot in zip(names, slots, strict=False):
        if name != slot:
            msg = f"{where}: expected {slot!r} at this place, found {name!r}; args are positional"
            raise TraceRefused(msg)
    missing = [
        p.name
        for p in signature.parameters.values()
        if p.default is Parameter.empty
        and p.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        and p.name not in given
    ]
    if missing:
        msg = f"{where} needs {', '.join(map(repr, missing))}, which the manifest does not give"
        raise TraceRefused(msg)
    unknown = [name for name, _ in job.kwargs if name not in signature.parameters]
    if unknown and Parameter.VAR_KEYWORD not in kinds:
        msg = f"functions.{job.name}.kwargs: {job.call}{signature} has no {unknown[0]!r}"
        raise TraceRefused(msg)
