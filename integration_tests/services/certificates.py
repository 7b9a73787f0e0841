"""Certificates for servers of the tests: an authority, and what it has signed or another one has."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY: Final = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """PEM files of a certificate and its key, and of both in one."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Signs certificates; its own is `ca`. Everything lies in one folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        now = datetime.datetime.now(datetime.UTC)
        built = (
            _builder(self._name, self._name, self._key.public_key(), now - _DAY, now + 30 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
        )
        self._certificate = built.sign(self._key, hashes.SHA256())
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def sign(
        self, name: str, *hosts: str, expired: bool = False, password: str | None = None, mode: int = 0o644
    ) -> Pair:
        """A certificate of this common name for these hosts, an address or a name each. `mode`: of the key's file."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        until = now - _DAY if expired else now + 30 * _DAY
        builder = (
            _builder(_named(name), self._name, key.public_key(), now - 2 * _DAY, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), False
            )
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        locked = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        pair = Pair(*(self._folder / f"{name}{'-expired' if expired else ''}.{end}" for end in ("crt", "key", "pem")))
        certificate = signed.public_bytes(serialization.Encoding.PEM)
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
        for path, content in ((pair.certificate, certificate), (pair.key, private), (pair.both, private + certificate)):
            path.write_bytes(content)
        pair.key.chmod(mode)
        return pair


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    begin: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return builder.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
