"""Make the entries of a manifest from the model and the nodes."""

from __future__ import annotations

from aotbuild.manifest.checks import NO_PORTABLE, check_function
from aotbuild.manifest.dims import check_dims, check_used, dim_names, expand, read_pads
from aotbuild.manifest.nodes import MapNode, Node, ScalarNode, child, key_mark
from aotbuild.manifest.problems import Problems
from aotbuild.manifest.schema_model import Export
from aotbuild.manifest.shardings import ShardingReader
from aotbuild.manifest.source import Source, with_defaults
from aotbuild.manifest.specs import SpecReader
from aotbuild.manifest.statics import read_statics
from aotbuild.manifest.types import ArgSpec, ExportOptions, FunctionEntry, Sharding, VerifyOptions
from aotbuild.manifest.validate import Checked
from aotbuild.platforms.building import Request
from aotbuild.spec.target import PORTABLE

Named = tuple[tuple[str, ArgSpec], ...]


def read_functions(
    checked: Checked, root: Node, targets: tuple[Request, ...], problems: Problems
) -> tuple[FunctionEntry, ...]:
    """Return all entries; report what in them is wrong."""
    _check_default_export(root, targets, checked, problems)
    return tuple(_entry(source, targets) for source in _sources(checked, root, problems))


def _check_default_export(
    root: Node, targets: tuple[Request, ...], checked: Checked, problems: Problems
) -> None:
    defaults = child(root, "defaults")
    portable = any(target.platform == PORTABLE for target in targets)
    if defaults is None or child(defaults, "export") is None or portable:
        return
    if "targets" not in checked.broken_in():
        problems.add(key_mark(defaults, "export"), "defaults.export", NO_PORTABLE)


def _sources(checked: Checked, root: Node, problems: Problems) -> list[Source]:
    functions = child(root, "functions")
    entries = functions.entries if isinstance(functions, MapNode) else ()
    return [
        _source(checked, root, problems, key, entry)
        for key, entry in entries
        if isinstance(key.value, str) and key.value in checked.model.functions
    ]


def _source(
    checked: Checked, root: Node, problems: Problems, key: ScalarNode, entry: Node
) -> Source:
    name = str(key.value)
    own = checked.broken_in("functions", name)
    set_here = set(map(str, entry.keys())) if isinstance(entry, MapNode) else set()
    inherited = checked.broken_in("defaults") - set_here
    model = with_defaults(checked.model.functions[name], checked.model.defaults)
    broken = own | inherited | (checked.broken_in() & {"targets"})
    return Source(name, key, entry, child(root, "defaults"), model, broken, problems)


def _entry(source: Source, targets: tuple[Request, ...]) -> FunctionEntry:
    check_function(source, targets)
    args, kwargs = _arguments(source)
    model, in_shardings, out_shardings = source.model, *_shardings(source)
    return FunctionEntry(
        name=source.name,
        call=model.call,
        args=args,
        kwargs=kwargs,
        rows=expand(source),
        statics=read_statics(source),
        donate=tuple(model.donate),
        keep_unused=model.keep_unused,
        mesh=tuple(model.mesh.items()),
        in_shardings=in_shardings,
        out_shardings=out_shardings,
        out_shardings_given="out_shardings" in model.model_fields_set,
        compiler_options=tuple(model.compiler_options.items()),
        config=tuple(model.config.items()),
        env=tuple(model.env.items()),
        constants=model.constants,
        export=_export(model.export),
        verify=VerifyOptions(**model.verify.model_dump()),
        purity=model.purity,
        pad=read_pads(source, (*args, *kwargs), targets),
        startup=model.startup,
        line=source.key.mark.line,
        column=source.key.mark.column,
    )


def _arguments(source: Source) -> tuple[Named, Named]:
    """Return the specs of args and kwargs; check the dims against them."""
    dims_known = "dims" not in source.broken
    reader = SpecReader(source.add, dim_names(source) if dims_known else None)
    args = tuple(
        (str(key.value), reader.read(node, ("args", key.value))) for key, node in _arg_nodes(source)
    )
    kwargs = tuple(
        (str(key.value), reader.read(node, ("kwargs", key.value)))
        for key, node in source.entries("kwargs")
    )
    if dims_known:
        check_dims(source)
        if not source.broken.intersection(("args", "kwargs")):
            check_used(source, reader.used)
    return args, kwargs


def _arg_nodes(source: Source) -> list[tuple[ScalarNode, Node]]:
    node = source.node("args")
    items = () if node is None or isinstance(node, ScalarNode | MapNode) else node.items
    maps = [item for item in items if isinstance(item, MapNode) and len(item.entries) == 1]
    return [item.entries[0] for item in maps]


def _shardings(source: Source) -> tuple[tuple[tuple[str, Sharding], ...], Sharding]:
    known = source.model.mesh if "mesh" not in source.broken and source.model.mesh else None
    reader = ShardingReader(source.add, known)
    inputs = tuple(
        (str(key.value), reader.read(node, ("in_shardings", key.value)))
        for key, node in source.entries("in_shardings")
    )
    out = source.node("out_shardings")
    return inputs, reader.read(out, ("out_shardings",)) if out else None


def _export(model: Export) -> ExportOptions:
    return ExportOptions(
        dims=tuple(model.dims.items()),
        constraints=tuple(model.constraints),
        vjp_order=model.vjp_order,
        disabled_checks=tuple(model.disabled_checks),
    )
