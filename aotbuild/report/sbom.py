"""The software bill of materials of a package: CycloneDX 1.6 in JSON, made of its index alone.

Equal indexes, distributions and timestamps give equal bytes. Needs cyclonedx-python-lib, which is
imported when a document is made and not before.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import INDEX_NAME
from aotbuild.report.facts import read_facts
from aotbuild.runtime.distribution import Distribution
from aotbuild.runtime.source import Source

# What tells it from any other JSON: a schema may stand first.
BEGINS = re.compile(rb'\{\s*("\$schema": "[^"]*",\s*)?"bomFormat": "CycloneDX"')
_OLDEST = 9
# As in the extra `sbom`. Versions 9 to 11 write the same bytes.
SBOM_LIBRARY = f"cyclonedx-python-lib>={_OLDEST}"


def missing_library() -> str | None:
    """Return what to install before a document can be made, or None."""
    if importlib.util.find_spec("cyclonedx") is None:
        found = "it is not installed"
    else:
        version = metadata.version("cyclonedx-python-lib")
        if int(version.partition(".")[0]) >= _OLDEST:
            return None
        found = version
    return (
        f"the SBOM needs a library\n  expected {SBOM_LIBRARY}\n  found    {found}\n"
        "Install it: pip install 'aotbuild[sbom]'"
    )


def timestamp_of(environ: Mapping[str, str]) -> datetime | None:
    """Return the time that SOURCE_DATE_EPOCH sets; None if it is not set.

    Raises ValueError if it is not a number of seconds since 1970.
    """
    text = environ.get("SOURCE_DATE_EPOCH")
    if text is None:
        return None
    try:
        return datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError) as err:
        msg = f"SOURCE_DATE_EPOCH: expected whole seconds since 1970, found {text!r}"
        raise ValueError(msg) from err


def sbom_json(
    source: Source, distribution: Distribution | None = None, timestamp: datetime | None = None
) -> bytes:
    """Return the document of a package: ASCII, indented, one line feed at the end.

    A missing `distribution` is looked up beside the package. Raises InvalidIndex or
    UnsupportedFormat if the index cannot be read.
    """
    from cyclonedx.output.json import JsonV1Dot6

    from aotbuild.report.sbom_components import make_bom

    facts = read_facts(source)
    digest = sha256_hex(source.read(INDEX_NAME))
    bom = make_bom(facts, digest, distribution or facts.distribution)
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    # The library always writes a time; the current one would make builds differ.
    del document["metadata"]["timestamp"]
    if timestamp is not None:
        document["metadata"]["timestamp"] = timestamp.strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False).encode("ascii") + b"\n"
