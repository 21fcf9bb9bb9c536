"""Keys for signing, as files: written once, for their owner only, and read back."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest
from support.signing import keys

from aotbuild.errors import AotbuildError
from aotbuild.format.keys import make_key, parse_public_key, public_path, read_key, write_key

(KEY,) = keys(1)


class TestKeys:
    def test_round_trip(self, tmp_path: Path) -> None:
        path = tmp_path / "release.pem"
        for passphrase in (None, "open sesame"):
            key = make_key()
            write_key(key, path, passphrase)
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert read_key(path, passphrase).key_id == key.key_id
            assert read_key(path, "unused" if passphrase is None else passphrase) is not None
            assert public_path(path).read_bytes() == key.public_pem
            assert public_path(path).name == "release.pub.pem"
            for file in (path, public_path(path)):
                file.unlink()

    def test_nothing_is_replaced(self, tmp_path: Path) -> None:
        path = tmp_path / "release.pem"
        public_path(path).write_bytes(b"old")
        with pytest.raises(FileExistsError):
            write_key(make_key(), path, None)
        assert (path.exists(), public_path(path).read_bytes()) == (False, b"old")
        public_path(path).unlink()
        path.write_bytes(b"old")
        with pytest.raises(FileExistsError):
            write_key(make_key(), path, None)
        assert (public_path(path).exists(), path.read_bytes()) == (False, b"old")

    @pytest.mark.parametrize("passphrase", [None, "wrong"])
    def test_a_wrong_passphrase(self, tmp_path: Path, passphrase: str | None) -> None:
        path = tmp_path / "release.pem"
        write_key(make_key(), path, "right")
        with pytest.raises(AotbuildError, match="set AOTBUILD_SIGNING_PASSPHRASE"):
            read_key(path, passphrase)

    @pytest.mark.parametrize("data", [b"", b"x", KEY.public_pem, b"\xff" * 200])
    def test_files_that_are_no_private_key(self, tmp_path: Path, data: bytes) -> None:
        path = tmp_path / "release.pem"
        path.write_bytes(data)
        with pytest.raises(AotbuildError, match="expected an Ed25519 private key in PEM"):
            read_key(path, None)


@pytest.mark.parametrize("sign", [0, 0x80])
@pytest.mark.parametrize(
    "point",
    [
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "ec" + "ff" * 30 + "7f",
    ],
)
def test_a_key_for_which_anybody_can_sign(point: str, sign: int) -> None:
    raw = bytes.fromhex(point)
    raw = raw[:-1] + bytes([raw[-1] | sign])
    der = bytes.fromhex("302a300506032b6570032100") + raw  # RFC 8410, section 4
    pem = b"-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(der) + b"\n-----END PUBLIC KEY-----\n"
    with pytest.raises(ValueError, match="small order"):
        parse_public_key(pem)
