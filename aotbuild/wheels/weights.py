"""A wheel of weights alone: the hoisted constants of a package, split off or made anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from aotbuild.build.constant_blobs import TENSOR_NAME, serialize
from aotbuild.errors import AotbuildError, WheelRefused
from aotbuild.format.aval import Aval
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import COMPANIONS, FOLDER_NAME
from aotbuild.format.layout import (
    ENTRY_POINTS,
    PART,
    SPLIT,
    part_distribution,
    part_package,
    whole_header,
)
from aotbuild.format.record import Blob, Constant, Record
from aotbuild.format.weights import (
    WEIGHTS,
    constants_of_records,
    from_header,
    interface_of,
    to_header,
)
from aotbuild.runtime.fitting_weights import fit
from aotbuild.runtime.weights import dtype_named, read_weights
from aotbuild.wheels.draft import Artifacts, Draft, Written, note_if_left_out, write_all
from aotbuild.wheels.metadata import weights_metadata, with_weights
from aotbuild.wheels.opened import File, OpenedWheel, WheelName, made, open_wheel
from aotbuild.wheels.split import check_is_whole, signature_notes

_TAG = "py3-none-any"
# What the header of a companion says beside its part.
_STATED: tuple[str, ...] = ("aotbuild", "package", "jax", "jaxlib")
_NAME_EACH = (
    "Give each array a global of its own, or build each function's package alone; env: and config: "
    "of a function may decide what a module loads."
)
_BUILD_AGAIN = "Build it with constants: hoist, by this version of aotbuild."


def split_weights(wheel: Path, out: Path, versions: str | None = None) -> Written:
    """Write a wheel without its hoisted constants, and a companion with them.

    `versions` are those of the companion that the first one takes, as `>=1.0,<2`; by default
    exactly its own. Raises WheelRefused if the wheel fails a check, is a part, or has no constants.
    """
    with open_wheel(wheel) as opened:
        constants = _split_off(opened)
        sbom, notes = note_if_left_out([opened])
        drafts = [_base(opened, constants, versions, sbom), _companion(opened, constants)]
        return write_all(drafts, out, lambda *_: (), [*notes, *signature_notes([opened])])


def new_weights(file: Path, like: Path, version: str, out: Path, prefix: str = "") -> Written:
    """Write another version of a wheel of weights, with the arrays of a file.

    `like` is a wheel of weights. Raises WheelRefused if it is none, and WeightsMismatch if an array
    is missing, unknown, or of another shape or dtype.
    """
    with open_wheel(like) as opened:
        held = from_header(opened.index.header)
        if opened.part != WEIGHTS:
            remedy = "Give a wheel that `aotbuild split --weights` wrote."
            raise WheelRefused(str(like), "not a wheel of weights", [], remedy)
        _check_version(version, str(like))
        found = _read(file)
        named = {f"{prefix}.{name}" if prefix else name: found[name] for name in found}
        wanted = [(constant.name, constant.aval) for constant in held]
        arrays = fit(str(opened.index.header["package"]), str(file), _physical, wanted, named)
        draft = _of_arrays(opened, held, arrays, version)
        return write_all([draft], out, lambda *_: (), signature_notes([opened]))


def _read(file: Path) -> dict[str, Any]:
    try:
        return read_weights(file)
    except AotbuildError as err:
        place, *reasons, remedy = str(err).splitlines()
        raise WheelRefused(place, "no weights", reasons, remedy) from err


def _split_off(opened: OpenedWheel) -> tuple[Constant, ...]:
    """Return the constants to split off; WheelRefused if there are none, or without names."""
    constants = constants_of_records(opened.records)
    check_is_whole(opened)
    problem = None
    if not constants:
        problem = "none of its functions has hoisted constants"
    elif not all(constant.name for constant in constants):
        problem = "its constants have no names: an older version of aotbuild built it"
    if problem:
        raise WheelRefused(str(opened.path), problem, [], _BUILD_AGAIN)
    if lines := [*_of_one_name(opened.records)]:
        problem = "a wheel of weights has one array for each name"
        raise WheelRefused(str(opened.path), problem, lines, _NAME_EACH)
    return constants


def _of_one_name(records: Iterable[Record]) -> Iterator[str]:
    """Yield a line for each name under which functions have different numbers."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for record in records:
        for each in record.calling.constants:
            blobs = found.setdefault((each.name, str(each.aval)), {})
            blobs.setdefault(each.blob.sha256, record.function)
    for (name, _), blobs in sorted(found.items()):
        if len(blobs) > 1:
            yield f"{name} has other numbers in {' than in '.join(sorted(blobs.values()))}"


def _base(
    opened: OpenedWheel, constants: Sequence[Constant], versions: str | None, sbom: bool
) -> Draft:
    name, version = opened.distribution
    specifier = f"=={version}" if versions is None else _checked(versions, str(opened.path))
    distribution = part_distribution(name, WEIGHTS)
    header = {
        **whole_header(opened.index.header),
        SPLIT: opened.digest,
        COMPANIONS: {WEIGHTS: distribution},
        WEIGHTS: interface_of(constants),
    }
    metadata = with_weights(opened.metadata, f"{distribution}{specifier}")
    artifacts = Artifacts(opened.folder, header, opened.functions, opened.records, [opened])
    return Draft.like(opened, artifacts, {"METADATA": metadata.encode()}, sbom=sbom)


def _companion(opened: OpenedWheel, constants: Sequence[Constant]) -> Draft:
    package = str(opened.index.header["package"])
    home = part_package(package, WEIGHTS)
    paths = sorted({constant.blob.path for constant in constants})
    files = [
        opened.file(f"{opened.folder}{path}", f"{home}/{FOLDER_NAME}/{path}") for path in paths
    ]
    header = {**_header(opened, constants), SPLIT: opened.digest}
    return _draft(opened, header, files, opened.distribution[1], opened.distribution[0])


def _of_arrays(
    opened: OpenedWheel,
    held: Sequence[Constant],
    arrays: Mapping[tuple[str, Aval], Any],
    version: str,
) -> Draft:
    home = part_package(str(opened.index.header["package"]), WEIGHTS)
    constants, files = [], {}
    for constant in held:
        if (constant.name, constant.aval) in arrays:
            data = serialize({TENSOR_NAME: arrays[constant.name, constant.aval]})
            blob = Blob("safetensors", sha256_hex(data), len(data))
            file = made(f"{home}/{FOLDER_NAME}/{blob.path}", opened.model, data)
        else:  # one without a name, which stays
            blob = constant.blob
            file = opened.file(f"{opened.folder}{blob.path}")
        constants.append(replace(constant, blob=blob))
        files[blob.path] = file
    of = opened.distribution[0].removesuffix(f"-{WEIGHTS}").removesuffix("-aot")
    ordered = [files[path] for path in sorted(files)]
    return _draft(opened, _header(opened, constants), ordered, version, of)


def _header(opened: OpenedWheel, constants: Sequence[Constant]) -> dict[str, Any]:
    stated = opened.index.header
    kept = {key: stated[key] for key in _STATED if key in stated}
    return {**kept, PART: WEIGHTS, WEIGHTS: to_header(constants)}


def _draft(
    opened: OpenedWheel, header: dict[str, Any], files: Sequence[File], version: str, of: str
) -> Draft:
    """Return a wheel of weights; `of` is the distribution of the code."""
    package = str(header["package"])
    home, name = part_package(package, WEIGHTS), part_distribution(of, WEIGHTS)
    wheel = WheelName(canonicalize_name(name).replace("-", "_"), version, _TAG)
    code = f'"""Weights of {package}, found by aotbuild.load({package!r})."""\n'
    return Draft(
        name=wheel,
        info=f"{wheel.distribution}-{version}.dist-info",
        distribution=(name, version),
        model=opened.model,
        files=[made(f"{home}/__init__.py", opened.model, code.encode()), *files],
        place=1,
        artifacts=Artifacts(f"{home}/{FOLDER_NAME}/", header, [], [], [opened]),
        changed={
            "METADATA": weights_metadata(opened.metadata, name, version, of).encode(),
            "WHEEL": f"Wheel-Version: 1.0\nGenerator: aotbuild\nRoot-Is-Purelib: true\n"
            f"Tag: {_TAG}\n".encode(),
            "entry_points.txt": f"[{ENTRY_POINTS}]\n{package} = {home}\n".encode(),
        },
    )


def _physical(aval: Aval) -> tuple[tuple[int, ...], Any]:
    if aval.dtype.startswith("key<"):
        problem = f"a constant is {aval}, and no file has typed PRNG keys"
        raise WheelRefused(str(aval), problem, [], "Let the code take jax.random.key_data of it.")
    return aval.shape, dtype_named(aval.dtype)


def _checked(versions: str, place: str) -> str:
    try:
        return str(SpecifierSet(versions))
    except InvalidSpecifier as err:
        remedy = "Give a range of versions, as `>=1.0,<2`."
        raise WheelRefused(place, f"--weights-versions: {err}", [], remedy) from err


def _check_version(version: str, place: str) -> None:
    try:
        Version(version)
    except InvalidVersion as err:
        raise WheelRefused(place, f"--version: {err}", [], "Give a version, as `1.1`.") from err
