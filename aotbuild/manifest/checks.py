"""Small checks of what the parts of one function must agree on."""

from __future__ import annotations

import math

from aotbuild.format.target import PORTABLE
from aotbuild.format.words import did_you_mean, quote
from aotbuild.manifest.declaration import Checks, Declaration, Found
from aotbuild.manifest.dims import MAX_SIGNATURES, SIGNATURE_OPTIONS
from aotbuild.manifest.names import function_name_problem
from aotbuild.manifest.problems import dotted
from aotbuild.manifest.reading import KEY
from aotbuild.manifest.shardings import ShardingTree, axes_of
from aotbuild.manifest.signatures import OF_SIGNATURE, unknown
from aotbuild.platforms.building import Description, Request


def check_function(declared: Declaration, targets: tuple[Request, ...]) -> None:
    """Report everything in one function that does not fit together."""
    declared.check(_OF_FUNCTION, targets)
    for each in declared.each_signature():
        each.check(OF_SIGNATURE, targets)


def _name(declared: Declaration, _: object) -> Found:
    problem = function_name_problem(declared.name)
    if problem:
        yield (KEY,), problem


def _signatures_alone(declared: Declaration, _: object) -> Found:
    for option in SIGNATURE_OPTIONS if declared.model.signatures else ():
        if option in declared.model.model_fields_set:
            message = "signatures: takes the place of this; move it into each of the signatures"
            yield (option,), message


def _same_arguments(declared: Declaration, _: object) -> Found:
    """Yield arguments that one signature takes in another way than the others.

    A call does not say which of the signatures it has, so its arguments are bound before.
    """
    every = [*declared.each_signature()] if declared.model.signatures else []
    longest = max((each.positional() for each in every), key=len, default=())
    kinds: dict[object, tuple[str, str]] = {}
    for each in every:
        expected = longest[: len(each.positional())]
        if each.positional() != expected:
            message = (
                "the positional arguments of all signatures are the first ones of one list; "
                f"expected {', '.join(expected)}, found {', '.join(each.positional())}"
            )
            yield (*each.prefix, "args"), message
        where = dotted(each.prefix)
        found = (("args", each.positional()), ("kwargs", each.model.kwargs))
        for option, names in (*found, ("static", each.model.static)):
            for name in names:
                known, first = kinds.setdefault(name, (option, where))
                if known != option and first != where:
                    message = f"{quote(name)} is under {known} in {first}; list it there here, too"
                    key = () if option == "args" else (name, KEY)
                    yield (*each.prefix, option, *key), message


def _donated(declared: Declaration, _: object) -> Found:
    return _arguments_listed(declared, "donate", declared.model.donate)


def _fed_back(declared: Declaration, _: object) -> Found:
    return _arguments_listed(declared, "feedback", declared.model.feedback)


def _arguments_listed(declared: Declaration, option: str, listed: tuple[str, ...]) -> Found:
    known, seen = declared.names(), set[str]()
    for index, name in enumerate(listed):
        if name not in known:
            yield (option, index), _unknown_argument(declared, name)
        elif name in seen:
            yield (option, index), f"{quote(name)} is listed twice"
        seen.add(name)


def _sharded(declared: Declaration, _: object) -> Found:
    for name in declared.model.in_shardings:
        if name not in declared.names():
            yield ("in_shardings", name, KEY), _unknown_argument(declared, name)


def _unknown_argument(declared: Declaration, name: str) -> str:
    known = declared.names()
    hint = did_you_mean(name, known) or f"; known: {', '.join(known) or 'none'}"
    return f"{quote(name)} is neither in args nor in kwargs{hint}"


def _needs_mesh(declared: Declaration, _: object) -> Found:
    given = declared.model.model_fields_set
    message = "a sharding needs a mesh; add mesh: {axis: size}"
    if not declared.model.mesh and declared.model.in_shardings:
        yield ("in_shardings",), message
    if not declared.model.mesh and "out_shardings" in given:
        yield ("out_shardings",), message


def _axes(declared: Declaration, _: object) -> Found:
    mesh = declared.model.mesh
    named = [*axes_of(ShardingTree(tuple(declared.model.in_shardings.items())), ("in_shardings",))]
    named += axes_of(declared.model.out_shardings, ("out_shardings",))
    named = named if mesh else []  # `_needs_mesh` reports them
    named += ((("explicit_axes", i), name) for i, name in enumerate(declared.model.explicit_axes))
    for steps, name in named:
        if name not in mesh:
            yield steps, unknown("mesh axis", name, mesh, "mesh")


def _mesh_fits(declared: Declaration, targets: tuple[Request, ...]) -> Found:
    size = math.prod(declared.model.mesh.values())
    native = [t for t in targets if t.platform != PORTABLE]
    most, platform = min((t.description.most_devices, t.platform) for t in targets)
    if size > most:
        message = f"a mesh of {str(size)[:20]} devices; a call for {platform} has at most {most}"
        yield ("mesh",), message
        return
    devices = [n for target in native for n in target.description.device_counts(target)]
    if not declared.model.mesh or not native or None in devices or size in devices:
        return
    found = ", ".join(str(count) for count in dict.fromkeys(devices))
    message = f"a mesh of {str(size)[:20]} devices, but the targets have {found}"
    remedies = {target.description.mesh_remedy(size) for target in native}
    remedy = remedies.pop() if len(remedies) == 1 else Description().mesh_remedy(size)
    yield ("mesh",), f"{message}; {remedy}"


def _few_enough(declared: Declaration, _: object) -> Found:
    count = sum(each.count for each in declared.model.each_signature)
    if count > MAX_SIGNATURES:
        message = f"{str(count)[:20]} signatures; at most {MAX_SIGNATURES} are built for a function"
        option = "dims" if declared.model.dims else "static"
        option = "signatures" if declared.model.signatures else option
        yield (option,), f"{message}; list the rows that are called"


def _export_dims(declared: Declaration, _: object) -> Found:
    known = declared.model.dim_names
    for name in declared.model.export.dims:
        if name not in known:
            yield ("export", "dims", name, KEY), unknown("dim", name, known, "dims")


def _export_target(declared: Declaration, targets: tuple[Request, ...]) -> Found:
    portable = any(target.platform == PORTABLE for target in targets)
    if "export" in declared.model.model_fields_set and not portable:
        message = "only the portable artifact uses this; add the target portable, or remove it"
        yield ("export",), message


_ARGUMENTS = ("args", "kwargs")
_OF_FUNCTION: Checks = (
    (_name, ()),
    (_signatures_alone, ("signatures",)),
    (_same_arguments, (*_ARGUMENTS, "static", "signatures")),
    (_donated, (*_ARGUMENTS, "donate")),
    (_fed_back, (*_ARGUMENTS, "feedback")),
    (_sharded, (*_ARGUMENTS, "in_shardings")),
    (_needs_mesh, ("mesh", "in_shardings", "out_shardings")),
    (_axes, ("mesh",)),
    (_mesh_fits, ("mesh", "targets")),
    (_few_enough, ("dims", "static")),
    (_export_dims, ("dims", "export")),
    (_export_target, ("targets",)),
)
