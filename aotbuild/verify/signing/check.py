"""The check `signature`: a trusted key has signed the index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aotbuild.errors import UntrustedPackage
from aotbuild.runtime.signatures import Key, check_package, read_policies, read_seals_file
from aotbuild.runtime.source import Source
from aotbuild.runtime.trust import demanded_keys
from aotbuild.spec.index import Index
from aotbuild.spec.signing import MAX_SEALS_BYTES, SEALS_NAME, read_seals
from aotbuild.verify.outcome import Outcome, Status, concluded, not_checked

CHECK = "signature"
NOT_SIGNED = "not signed"
NO_KEY = "no key was given (--trust)"


@dataclass(frozen=True)
class SignatureOptions:
    """Required keys, as `load` takes them, and a signature file beside the package.

    With `operator`, AOTBUILD_TRUST applies as well. Without any key no signature is required.
    """

    keys: Sequence[Key] | None = None
    file: Path | None = None
    operator: bool = True


def check_signature(
    source: Source, index: Index | None, data: bytes, wanted: SignatureOptions, package: str | None
) -> Outcome:
    """Check the signatures over an index, whose bytes are `data`.

    `index` is None if it could not be opened; `package` is the requested name, if any. A malformed
    signature file fails even if no signature is required.
    """
    place = str(wanted.file or f"{source.place}/{SEALS_NAME}")
    if index is None:
        return not_checked(CHECK, place, "the index failed")
    try:
        demanded = demanded_keys(wanted.keys, "--trust", operator=wanted.operator)
        policies = read_policies(source.place, demanded)
        if policies:
            check_package(source.place, index, package)
        elif wanted.file is None and not has_seals(source):
            return not_checked(CHECK, place, NOT_SIGNED)
        seals = read_seals(_read(source, wanted.file), place)
        signers = {key for policy in policies for key in policy.check(place, data, seals)}
    except UntrustedPackage as err:
        return concluded(CHECK, place, [str(err)])
    if not policies:
        return not_checked(CHECK, place, NO_KEY)
    reasons = tuple(f"signed by {key}" for key in sorted(signers))
    return Outcome(CHECK, place, Status.PASS, reasons)


def has_seals(source: Source) -> bool:
    """Return whether a source has a signature file, valid or not."""
    try:
        source.read(SEALS_NAME, 1)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _read(source: Source, file: Path | None) -> bytes:
    if file is None:
        return read_seals_file(source)
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_SEALS_BYTES + 1)
    except OSError as err:
        remedy = "Give the file that `aotbuild sign --out` wrote."
        found = err.strerror or str(err)
        raise UntrustedPackage(str(file), "a signature file", found, remedy) from err
