"""The file of kept stages beside a package: one zip, the same bytes from the same contents."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from pathlib import Path

from aotbuild.spec.files import write_whole
from aotbuild.spec.record import Record

# The earliest time that a zip can hold.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_MODE = 0o644


def write_stages(path: Path, folder: Path, records: Iterable[Record]) -> None:
    """Write the kept stages of records, whose blobs are below `folder`, to a zip file."""
    names = {blob.path for record in records for _, blob in record.stages}
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in sorted(names):
            member = zipfile.ZipInfo(name, _EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system, member.external_attr = _UNIX, _MODE << 16
            archive.writestr(member, (folder / name).read_bytes(), compresslevel=9)
    write_whole(path, data.getvalue())
