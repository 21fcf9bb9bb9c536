"""Variant wheels, after the draft of PEP 825 of 10 August 2026.

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
from aotbuild.format.files import write_whole
from aotbuild.format.record import Record
from aotbuild.platforms.base import names
from aotbuild.platforms.building import description
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
from aotbuild.wheels.opened import OpenedWheel, open_wheel
from aotbuild.wheels.split import (
    families_of,
    functions_of,
    header_for,
    records_of,
    signature_notes,
)

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
    functions, header = functions_of(opened, records), header_for(opened, families)
    artifacts = Artifacts(opened.folder, header, functions, records, [opened])
    changed = {"variant.json": document({label: properties}, namespaces)}
    return Draft.like(opened, artifacts, changed, sbom=sbom, label=label)
