"""The folder into which a worker writes bytes, each under its digest, each exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aotbuild.spec.canonical import sha256_hex
from aotbuild.spec.files import write_whole
from aotbuild.spec.record import Blob


@dataclass(frozen=True)
class BlobFolder:
    """Content-addressed files below `root`, written so that no reader sees half of one."""

    root: Path

    def add(self, kind: str, data: bytes) -> Blob:
        """Write `data` unless it is there already, and return its blob."""
        blob = Blob(kind, sha256_hex(data), len(data))
        final = self.root / blob.path
        if not final.exists():
            final.parent.mkdir(parents=True, exist_ok=True)
            write_whole(final, data)
        return blob

    def read(self, blob: Blob) -> bytes:
        """Return the bytes of a blob that was added."""
        return (self.root / blob.path).read_bytes()
