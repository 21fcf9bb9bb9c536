"""Splitting a wheel: a base with the code, and a companion for each family of targets.

Or into variant wheels, after the draft of PEP 825 of 10 August 2026.
https://peps.python.org/pep-0825/ (format 0.1.1, whose numbers below 1 are "reserved for drafts and
MUST NOT be used in production"). Instead of a base and companions there are complete wheels of one
distribution: `null`, with the kept targets, and one for each family, with the kept targets and its
own. The label in the file name stands for the properties in `variant.json`.

The PEP does not define namespaces. `nvidia` follows the provider of that name
(https://github.com/wheelnext/nvidia-variant-provider2): `sm_arch` with the suffix `_real` for
machine code, and `cuda_version_lower_bound`. There is no provider for TPUs: `tpu` is our own, so no
installer selects such a wheel by itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from aotbuild.errors import WheelRefused
from aotbuild.platforms.base import known_names, names
from aotbuild.platforms.building import description
from aotbuild.spec.index import COMPANIONS, FOLDER_NAME
from aotbuild.spec.layout import (
    ENTRY_POINTS,
    PART,
    SPLIT,
    part_distribution,
    part_package,
    whole_header,
    write_whole,
)
from aotbuild.spec.left_out import LEFT_OUT, AllLeftOut, left_out_header, read_left_out
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function
from aotbuild.spec.target import HOST, PORTABLE
from aotbuild.wheels.draft import (
    Artifacts,
    Draft,
    Written,
    absent_stages,
    check_free,
    note_if_left_out,
    split_stages,
    write_all,
)
from aotbuild.wheels.metadata import companion_metadata, with_companions
from aotbuild.wheels.opened import OpenedWheel, WheelName, made, open_wheel

# A target's family is its platform.
FAMILIES = (*known_names(), PORTABLE)
KEPT = (HOST, PORTABLE)

SIGN_AGAIN = (
    "the signature of {} is left out, for the indexes are new: run `aotbuild sign` on each wheel"
)


def split(wheel: Path, out: Path, keep: Collection[str] = KEPT) -> Written:
    """Write the base and the companions of a wheel into a folder; `keep` stays in the base.

    Raises WheelRefused if the wheel fails a check, is a part already, or has nothing to split off.
    """
    with open_wheel(wheel) as opened:
        families = families_of(opened, keep)
        sbom, notes = note_if_left_out([opened])
        notes += absent_stages([opened]) + signature_notes([opened])
        drafts = [
            _base(opened, families, keep, sbom),
            *(_companion(opened, family, sbom) for family in families),
        ]

        def stages(draft: Draft, path: Path) -> Iterator[Path]:
            return split_stages([opened], draft.artifacts.records, path)

        return write_all(drafts, out, stages, notes)


def families_of(opened: OpenedWheel, keep: Collection[str]) -> list[str]:
    """Return the families to split off, sorted; WheelRefused if there are none."""
    if opened.split is not None:
        problem = "it is a companion" if opened.part else "it was split before"
        remedy = "Split the wheel that the build made; `aotbuild merge` puts parts together again."
        raise WheelRefused(str(opened.path), problem, [], remedy)
    found = {record.target.platform for record in opened.records}
    families = sorted(found - set(keep))
    if not families:
        remedy = "Keep less in the base (--keep), or ship the wheel as it is."
        problem = "all of its executables are of what the base keeps"
        raise WheelRefused(str(opened.path), problem, [f"found {', '.join(sorted(found))}"], remedy)
    return families


def records_of(opened: OpenedWheel, families: Collection[str]) -> list[Record]:
    """Return the records of these families."""
    return [record for record in opened.records if record.target.platform in families]


def functions_of(opened: OpenedWheel, records: Sequence[Record]) -> list[Function]:
    """Return the functions that have a record among these."""
    called = {record.function for record in records}
    return [function for function in opened.functions if function.name in called]


def _header_for(opened: OpenedWheel, families: Collection[str]) -> dict[str, Any]:
    """Return the header of a wheel, which names only units of these families as left out."""
    header = whole_header(opened.index.header)
    found = read_left_out(header)
    units = tuple(u for u in found.units if u.target.partition(":")[0] in families)
    rest = {key: value for key, value in header.items() if key != LEFT_OUT}
    return {**rest, **left_out_header(AllLeftOut(units, found.more))}


def signature_notes(wheels: Sequence[OpenedWheel]) -> list[str]:
    """Return a note for each wheel that was signed."""
    return [SIGN_AGAIN.format(wheel.path.name) for wheel in wheels if wheel.is_signed]


def _base(opened: OpenedWheel, families: list[str], keep: Collection[str], sbom: bool) -> Draft:
    name, version = opened.distribution
    companions = {family: part_distribution(name, family) for family in families}
    header = {**whole_header(opened.index.header), SPLIT: opened.digest, COMPANIONS: companions}
    metadata = with_companions(opened.metadata, companions, version)
    records = records_of(opened, keep)
    artifacts = Artifacts(opened.folder, header, opened.functions, records, [opened])
    return Draft.like(opened, artifacts, {"METADATA": metadata.encode()}, sbom=sbom)


def _companion(opened: OpenedWheel, part: str, sbom: bool) -> Draft:
    package = str(opened.index.header["package"])
    home = part_package(package, part)
    name = part_distribution(opened.distribution[0], part)
    records = records_of(opened, [part])
    functions = functions_of(opened, records)
    header = {**_header_for(opened, [part]), SPLIT: opened.digest, PART: part}
    code = f'"""Executables of {package} for {part}, found by aotbuild.load({package!r})."""\n'
    wheel = WheelName(_escaped(name), opened.name.version, opened.name.tag)
    return Draft(
        name=wheel,
        info=f"{wheel.distribution}-{wheel.version.partition('-')[0]}.dist-info",
        distribution=(name, opened.distribution[1]),
        model=opened.model,
        files=[made(f"{home}/__init__.py", opened.model, code.encode())],
        artifacts=Artifacts(f"{home}/{FOLDER_NAME}/", header, functions, records, [opened]),
        changed={
            "METADATA": companion_metadata(opened.metadata, name, part).encode(),
            "WHEEL": opened.archive.read(f"{opened.info}/WHEEL"),
            "entry_points.txt": f"[{ENTRY_POINTS}]\n{package} = {home}\n".encode(),
        },
        sbom=sbom,
    )


def _escaped(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name).replace("-", "_")


SCHEMA = "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json"
_NULL = "null"
DRAFT = (
    "variant wheels follow the draft of PEP 825 of 10 August 2026 (format 0.1.1), which says that "
    "drafts must not be used in production; pip does not take them"
)
# {namespace: {feature: values}}
Properties = dict[str, dict[str, list[str]]]


def split_variants(wheel: Path, out: Path, keep: Collection[str]) -> Written:
    """Write the variants of a wheel into a folder, with the file that a package index serves.

    Raises WheelRefused as `split` does, and for a family that no property describes.
    """
    with open_wheel(wheel) as opened:
        families = families_of(opened, keep)
        _check(opened, families, keep)
        sbom, notes = note_if_left_out([opened])
        notes += [DRAFT, *absent_stages([opened]), *signature_notes([opened])]
        namespaces = [namespace for family in families if (namespace := _namespace(family))]
        drafts, variants = [], {}
        for family in (None, *families):
            shipped = [*keep, *([family] if family else [])]
            records = records_of(opened, shipped)
            properties = _properties_of(records_of(opened, [family])) if family else {}
            label = _label_of(properties)
            if records:
                variants[label] = properties
                drafts.append(_draft(opened, label, properties, shipped, namespaces, sbom))
        index = out / f"{opened.name.distribution}-{opened.name.version}-variants.json"
        check_free(index)

        def beside(draft: Draft, path: Path) -> Iterator[Path]:
            yield from split_stages([opened], draft.artifacts.records, path)
            if draft is drafts[-1]:
                write_whole(index, document(variants, namespaces))
                yield index

        return write_all(drafts, out, beside, notes)


def document(variants: dict[str, Properties], namespaces: Sequence[str]) -> bytes:
    """Return a `variant.json`, or with several variants the file for a package index."""
    data: dict[str, Any] = {
        "$schema": SCHEMA,
        "default-priorities": {"namespace": list(namespaces)},
        "variants": variants,
    }
    return json.dumps(data, indent=2).encode("ascii") + b"\n"


def _properties_of(records: Sequence[Record]) -> Properties:
    """Return the properties that a system needs to run at least one of these records.

    They are coarser than the loader's checks: an installer selects a wheel that may fit.
    """
    family = description(records[0].target.platform)
    assert family.variant_namespace is not None, "families without one are refused"
    return {family.variant_namespace: family.variant_features(records)}


def _namespace(family: str) -> str | None:
    return description(family).variant_namespace if family in names() else None


def _label_of(properties: Properties) -> str:
    """Return the label of a variant; equal properties have equal labels in all wheels."""
    parts = [
        "_".join([namespace, *(value for values in features.values() for value in values)])
        for namespace, features in properties.items()
    ]
    return "_".join(parts) or _NULL


def _check(opened: OpenedWheel, families: Sequence[str], keep: Collection[str]) -> None:
    """Raise WheelRefused for a family that no property describes."""
    unknown = [family for family in families if _namespace(family) is None]
    if unknown:
        problem = f"no variant can be of {', '.join(unknown)}"
        known = ", ".join(name for name in names() if _namespace(name))
        reasons = [f"expected {known}, and the rest in --keep"]
        reasons.append(f"found --keep {','.join(keep)}")
        remedy = "Keep cpu and portable: whatever the machine is, the loader takes what fits."
        raise WheelRefused(str(opened.path), problem, reasons, remedy)


def _draft(
    opened: OpenedWheel,
    label: str,
    properties: Properties,
    families: Collection[str],
    namespaces: Sequence[str],
    sbom: bool,
) -> Draft:
    records = records_of(opened, families)
    functions, header = functions_of(opened, records), _header_for(opened, families)
    artifacts = Artifacts(opened.folder, header, functions, records, [opened])
    changed = {"variant.json": document({label: properties}, namespaces)}
    return Draft.like(opened, artifacts, changed, sbom=sbom, label=label)
