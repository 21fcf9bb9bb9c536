"""`aotbuild keygen`: make a private key to sign with, and its public key."""

from __future__ import annotations

from pathlib import Path

from aotbuild.cli.command import JSON, argument, command, new_file
from aotbuild.cli.output import Output
from aotbuild.cli.sign import need_cryptography, passphrase


@command(
    "Make a key to sign packages with.",
    argument("private", metavar="PRIVATE.pem", type=new_file),
    JSON,
)
def keygen(output: Output, private: Path, as_json: bool) -> None:
    """Write a new Ed25519 key to PRIVATE.pem, for its owner alone, and its public key beside it.

    The public key of release.pem is release.pub.pem. Neither replaces a file. With a passphrase in
    AOTBUILD_SIGNING_PASSPHRASE the private key is encrypted.
    """
    from aotbuild.format.keys import make_key, public_path, write_key

    output.as_json = as_json
    try:
        key = make_key()
    except ImportError as err:
        need_cryptography(err)
    write_key(key, private, passphrase())
    public = public_path(private)
    output.document.update(key=key.key_id, private=str(private), public=str(public))
    output.text(f"key {key.key_id}")
    output.text(f"private, keep it secret: {private}")
    output.text(f"public, give it away:    {public}")
