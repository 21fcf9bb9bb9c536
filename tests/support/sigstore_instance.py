"""A Sigstore instance of our own on this machine: a certificate authority and a transparency log.

It speaks what Fulcio and Rekor speak to their clients, so that the real library `sigstore` signs
with it and verifies against it. Its keys live as long as the object.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

IDENTITY = "https://github.com/acme/mypkg/.github/workflows/release.yml@refs/tags/v1.0"
ISSUER = "https://token.actions.githubusercontent.com"
SCT_LIST = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
ISSUER_OID = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
SHA256 = ec.ECDSA(hashes.SHA256())
START = "2020-01-01T00:00:00Z"


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def identity_token(
    identity: str = IDENTITY, issuer: str = ISSUER, audience: str = "sigstore"
) -> str:
    """Return an identity token; clients of Sigstore check its claims and not its signature."""
    now = int(time.time())
    claims = {"iss": issuer, "sub": identity, "aud": audience, "iat": now, "exp": now + 600}
    parts = ({"alg": "HS256", "typ": "JWT"}, claims)
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts)
    return b".".join([*encoded, b"c2ln"]).decode()


def canonical(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


class Log:
    """A log with a key. Each entry is the first one of a tree of its own."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        public = self.key.public_key()
        self.public = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.id = hashlib.sha256(self.public).digest()

    def described(self, url: str) -> dict[str, Any]:
        key = {
            "rawBytes": b64(self.public),
            "keyDetails": "PKIX_ECDSA_P256_SHA_256",
            "validFor": {"start": START},
        }
        about = {"baseUrl": url, "hashAlgorithm": "SHA2_256"}
        return {**about, "publicKey": key, "logId": {"keyId": b64(self.id)}}

    def timestamp(self, issuer: bytes, certificate: x509.Certificate) -> x509.UnrecognizedExtension:
        """Return the extension that says that a certificate was logged (RFC 6962)."""
        milliseconds = int(time.time() * 1000)
        body = certificate.tbs_certificate_bytes
        length = struct.pack("!I", len(body))[1:]
        head = struct.pack("!BBQH", 0, 0, milliseconds, 1)
        signature = self.key.sign(head + issuer + length + body + b"\0\0", SHA256)
        signed = struct.pack("!BBH", 4, 3, len(signature)) + signature
        one = b"\0" + self.id + struct.pack("!Q", milliseconds) + b"\0\0" + signed
        listed = struct.pack("!HH", len(one) + 2, len(one)) + one
        return x509.UnrecognizedExtension(SCT_LIST, der_bytes(listed))

    def enter(self, proposed: dict[str, Any]) -> dict[str, Any]:
        """Log a DSSE envelope, and return what Rekor answers."""
        content = proposed["spec"]["proposedContent"]
        envelope = json.loads(content["envelope"])
        payload = base64.b64decode(envelope["payload"])
        verifier = content["verifiers"][0]
        signatures = [{"signature": s["sig"], "verifier": verifier} for s in envelope["signatures"]]
        spec = {
            "envelopeHash": hashed(content["envelope"].encode()),
            "payloadHash": hashed(payload),
            "signatures": signatures,
        }
        body = canonical({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})
        entry = {
            "body": b64(body),
            "integratedTime": int(time.time()),
            "logID": self.id.hex(),
            "logIndex": 0,
        }
        promise = b64(self.key.sign(canonical(entry), SHA256))
        root = hashlib.sha256(b"\0" + body).digest()
        proof = {
            "logIndex": 0,
            "treeSize": 1,
            "rootHash": root.hex(),
            "hashes": [],
            "checkpoint": self.checkpoint(root),
        }
        found = {"signedEntryTimestamp": promise, "inclusionProof": proof}
        return {root.hex(): {**entry, "verification": found}}

    def checkpoint(self, root: bytes) -> str:
        note = f"log.test\n1\n{b64(root)}\n"
        return (
            f"{note}\n\u2014 log.test {b64(self.id[:4] + self.key.sign(note.encode(), SHA256))}\n"
        )


def hashed(data: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(data).hexdigest()}


def der_bytes(data: bytes) -> bytes:
    """Return an OCTET STRING of less than 256 bytes."""
    length = bytes([len(data)]) if len(data) < 128 else bytes([0x81, len(data)])
    return b"\x04" + length + data


class Authority:
    """A certificate authority that believes every identity token, as Fulcio believes real ones."""

    def __init__(self, log: Log) -> None:
        self.log, self.key = log, ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority.test")])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        identifier = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
        builder = self._certificate(self.name, self.key.public_key(), days=3650)
        builder = builder.add_extension(constraints, critical=True)
        builder = builder.add_extension(identifier, critical=False)
        builder = builder.add_extension(usage(signs=False), critical=True)
        self.root = builder.sign(self.key, hashes.SHA256())

    def issue(self, request: x509.CertificateSigningRequest, token: str) -> x509.Certificate:
        """Return a certificate for the identity of a token."""
        part = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        names = [x509.UniformResourceIdentifier(claims["sub"])]
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        code_signing = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING])
        issuer = x509.UnrecognizedExtension(ISSUER_OID, claims["iss"].encode())
        builder = self._certificate(x509.Name([]), request.public_key(), days=1)  # type: ignore[arg-type]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
        builder = builder.add_extension(authority, critical=False)
        builder = builder.add_extension(usage(signs=True), critical=True)
        builder = builder.add_extension(code_signing, critical=False)
        builder = builder.add_extension(issuer, critical=False)
        before = builder.sign(self.key, hashes.SHA256())
        public = self.key.public_key()
        spki = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        stamp = self.log.timestamp(hashlib.sha256(spki).digest(), before)
        return builder.add_extension(stamp, critical=False).sign(self.key, hashes.SHA256())

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, days: int
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return x509.CertificateBuilder(
            issuer_name=self.name,
            subject_name=subject,
            public_key=key,
            serial_number=x509.random_serial_number(),
            not_valid_before=now - dt.timedelta(minutes=5),
            not_valid_after=now + dt.timedelta(days=days),
        )


def usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=not signs,
        crl_sign=not signs,
        encipher_only=False,
        decipher_only=False,
    )


class Instance:
    """All of it, behind one server."""

    def __init__(self) -> None:
        self.log, self.ct_log = Log(), Log()
        self.authority = Authority(self.ct_log)
        self.requests: list[str] = []
        self.url = ""

    def trust_config(self) -> dict[str, Any]:
        """Return what clients are told: where its services are, and what to trust."""
        service = {"url": self.url, "majorApiVersion": 1, "operator": "test"}
        service["validFor"] = {"start": START}
        signing = {
            "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
            "caUrls": [service],
            "rekorTlogUrls": [service],
            "rekorTlogConfig": {"selector": "ANY"},
        }
        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": self.trusted_root(),
            "signingConfig": signing,
        }

    def trusted_root(self) -> dict[str, Any]:
        root = b64(self.authority.root.public_bytes(Encoding.DER))
        authority = {
            "subject": {"organization": "test", "commonName": "authority.test"},
            "uri": self.url,
            "certChain": {"certificates": [{"rawBytes": root}]},
            "validFor": {"start": START},
        }
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [self.log.described(self.url)],
            "certificateAuthorities": [authority],
            "ctlogs": [self.ct_log.described(self.url)],
        }

    def answer(self, path: str, token: str, asked: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(path)
        if path == "/api/v1/log/entries":
            return self.log.enter(asked)
        assert path == "/api/v2/signingCert"
        pem = base64.b64decode(asked["certificateSigningRequest"])
        leaf = self.authority.issue(x509.load_pem_x509_csr(pem), token)
        chain = [c.public_bytes(Encoding.PEM).decode() for c in (leaf, self.authority.root)]
        return {"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}}


@contextmanager
def running() -> Iterator[Instance]:
    """Run an instance until the block ends."""
    instance = Instance()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            token = (self.headers["Authorization"] or "").removeprefix("Bearer ")
            answer = json.dumps(instance.answer(self.path, token, asked)).encode()
            self.send_response(201)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        instance.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield instance
        finally:
            server.shutdown()
            thread.join()
