"""Certificates of the local web, right and wrong, made anew for each server."""

import datetime as dt
import ipaddress
import ssl
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from recrawl.testing.web.traits import TlsKind

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["CERTIFICATE_KINDS", "CertificateMaker"]

CERTIFICATE_KINDS = (TlsKind.RIGHT, TlsKind.SELF_SIGNED, TlsKind.EXPIRED, TlsKind.WRONG_NAME)
"""Kinds of TLS that need a certificate; the others fail before one is shown."""

_DAY = dt.timedelta(days=1)


class CertificateMaker:
    """An authority that lives as long as the object, and the certificates that it signs.

    It needs the package ``cryptography``.
    """

    def __init__(self) -> None:
        self._key = _make_key()
        self._authority = _certificate("recrawl test authority", (), self._key, None, is_ca=True)

    def client_context(self) -> ssl.SSLContext:
        """Return TLS settings of a client that trusts this authority and no other."""
        from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415

        pem = self._authority.public_bytes(Encoding.PEM).decode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=pem)
        return context

    def server_context(self, kind: TlsKind, names: Iterable[str]) -> ssl.SSLContext:
        """Return TLS settings of a server.

        Parameters
        ----------
        kind
            Fault of the certificate.
        names
            Names and addresses of the hosts that use it.
        """
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

        key = _make_key()
        if kind is TlsKind.WRONG_NAME:
            names = ("wrong.example",)
        issuer = None if kind is TlsKind.SELF_SIGNED else (self._authority, self._key)
        certificate = _certificate(
            "recrawl test", tuple(names), key, issuer, is_expired=kind is TlsKind.EXPIRED
        )
        pem = certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "certificate.pem"
            path.write_bytes(pem)
            context.load_cert_chain(path)
        return context


def _make_key() -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    return ec.generate_private_key(ec.SECP256R1())


def _certificate(
    title: str,
    names: tuple[str, ...],
    key: "EllipticCurvePrivateKey",
    issuer: "tuple[x509.Certificate, EllipticCurvePrivateKey] | None",
    *,
    is_ca: bool = False,
    is_expired: bool = False,
) -> "x509.Certificate":
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415

    now = dt.datetime.now(dt.UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, title)])
    issuer_name, issuer_key = (subject, key) if issuer is None else (issuer[0].subject, issuer[1])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 30 * _DAY)
        .not_valid_after(now - _DAY if is_expired else now + 30 * _DAY)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )
    if names:
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _general_name(name: str) -> "x509.GeneralName":
    from cryptography import x509  # noqa: PLC0415

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
