"""Signing a place: proven first, signed, and put in place as a whole or not at all."""

from __future__ import annotations

import errno
import shutil
import tempfile
import zipfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from aotbuild.errors import UntrustedPackage
from aotbuild.runtime.demands import read_seals_file
from aotbuild.runtime.locate import locate
from aotbuild.runtime.wheel_source import WheelSource
from aotbuild.spec.files import move_whole, write_whole
from aotbuild.spec.index import INDEX_NAME
from aotbuild.spec.signing import MAX_SEALS_BYTES, SEALS_NAME, Seal, read_seals, write_seals
from aotbuild.verify.api import Examined, Options, examine
from aotbuild.verify.outcome import Report, concluded
from aotbuild.verify.signing.check import CHECK, SignatureOptions, has_seals
from aotbuild.verify.signing.key import SigningKey
from aotbuild.verify.signing.rewrite import rewrite

# Signatures over RECORD itself, as the wheel format once had them: signing would break them.
_OLD_SIGNATURES = (".dist-info/RECORD.jws", ".dist-info/RECORD.p7s")


@dataclass(frozen=True)
class Signed:
    """What came of signing: the checks, and the file that was written, if none of them failed."""

    report: Report
    written: Path | None = None


def sign(place: Path, key: SigningKey, out: Path | None = None) -> Signed:
    """Sign a wheel or an `_aot` folder in place; with `out`, write the signature file there alone.

    Signs nothing that fails a check of `verify`; loads no native code. Signatures by other keys
    stay. PackageNotFound or NoArtifacts if there is nothing, OSError if a file cannot be read or
    written, or `out` is a file that holds no signatures.
    """
    if out is not None:
        _check_replaceable(out)
    # What may be loaded here (AOTBUILD_TRUST) does not decide what may be signed.
    before = examine(place, Options(signature=SignatureOptions(operator=False)))
    if before.failed:
        return Signed(before.report(str(place)))
    new = key.seal(before.contents.data)
    if out is None and before.path.endswith(".whl"):
        return _sign_wheel(place, before, key, new)
    written = out or Path(before.path, SEALS_NAME)
    write_whole(written, write_seals([new]) if out else _with_others(place, new))
    return Signed(before.report(str(place)), written)


def _check_replaceable(out: Path) -> None:
    """Raise FileExistsError for a file that is no signature file: it might be a key or a wheel."""
    if not out.exists():
        return
    try:
        read_seals(out.read_bytes()[: MAX_SEALS_BYTES + 1], str(out))
    except UntrustedPackage as err:
        reason = "is there already and is no signature file; name another"
        raise FileExistsError(errno.EEXIST, reason, str(out)) from err


def _sign_wheel(wheel: Path, before: Examined, key: SigningKey, new: Seal) -> Signed:
    with zipfile.ZipFile(wheel) as archive:
        old = [name for name in archive.namelist() if name.endswith(_OLD_SIGNATURES)]
    if old:
        reason = f"{old[0]} signs RECORD, which one more file changes; use --out"
        outcomes = (*before.outcomes, concluded(CHECK, wheel.name, [reason]))
        return Signed(Examined(outcomes, before.contents, before.path).report(str(wheel)))
    with closing(WheelSource(wheel)) as source:
        folder = source.place.removeprefix(f"{wheel}/")
    real = wheel.resolve()  # the file that a link leads to, not the link
    with tempfile.TemporaryDirectory(prefix=".aotbuild-", dir=real.parent) as temporary:
        target = Path(temporary, wheel.name)
        seals = _with_others(wheel, new)
        rewrite(wheel, target, f"{folder}/{SEALS_NAME}", seals, f"{folder}/{INDEX_NAME}")
        shutil.copymode(wheel, target)
        # Whatever happened to the wheel meanwhile, what is put in its place is whole and signed.
        mine = SignatureOptions([key.public_pem], operator=False)
        after = examine(target, Options(signature=mine))
        if not after.failed:
            move_whole(target, real)
    return Signed(after.report(str(wheel)), None if after.failed else wheel)


def _with_others(place: Path, new: Seal) -> bytes:
    """Return the signature file of a place with one more signature, or a renewed one."""
    with closing(locate(place)) as source:
        name = f"{source.place}/{SEALS_NAME}"
        old = read_seals(read_seals_file(source), name) if has_seals(source) else ()
    return write_seals([new, *(seal for seal in old if seal.key_id != new.key_id)])
