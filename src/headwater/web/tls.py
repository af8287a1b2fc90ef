"""Loads the server's certificate, or makes a self-signed one.

A self-signed certificate is made on first use in the folder `tls` of the data folder, for all names of the server, and
renewed before it expires. A given certificate is loaded again when its files change, so a renewal needs no restart.
"""

from __future__ import annotations

import hashlib
import ipaddress
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headwater.errors import SettingsError
from headwater.private_files import make_private_folder, open_private_file

VALID_DAYS = timedelta(days=398)  # browsers refuse longer ones
RENEW_DAYS = timedelta(days=30)


class Certificate:
    """A certificate and its key in two files, and the context that serves them."""

    def __init__(self, file: Path, key: Path) -> None:
        self.file, self.key = file, key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._load_context()
        self._loaded_state = self._file_state()

    def reload_if_changed(self) -> bool:
        """Read the files again if they changed; SettingsError if they cannot be used, and the old ones stay."""
        changed = self._file_state()
        if changed == self._loaded_state:
            return False
        self._loaded_state = changed
        self._load_context()
        return True

    def fingerprint(self) -> str:
        """SHA-256 of the certificate, as browsers show it."""
        der = ssl.PEM_cert_to_DER_cert(_read_first_certificate(self.file.read_text()))
        return ":".join(f"{byte:02X}" for byte in hashlib.sha256(der).digest())

    def _load_context(self) -> None:
        for what, path in (("certificate", self.file), ("key", self.key)):
            try:
                path.open("rb").close()
            except OSError as error:
                raise SettingsError(f"The TLS {what} {path} cannot be read: {error.strerror or error}.") from error
        # First into another context: one half of a pair that does not fit must not be served.
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):
            try:
                context.load_cert_chain(self.file, self.key, password=_refuse_password)
            except (ssl.SSLError, ValueError) as error:
                reason = getattr(error, "reason", None) or str(error) or "unreadable"
                raise SettingsError(
                    f"The TLS certificate {self.file} and the key {self.key} cannot be used ({reason}): they must be "
                    "PEM files that belong together, and the key must have no password."
                ) from error

    def _file_state(self) -> tuple[float, ...]:
        with suppress(OSError):
            return (self.file.stat().st_mtime, self.key.stat().st_mtime)
        return ()


def load_certificate(file: Path | None, key: Path | None, data: Path, names: Iterable[str]) -> Certificate:
    """Load the given certificate, or the self-signed one in the data folder."""
    if file is not None and key is not None:
        return Certificate(file, key)
    if file is not None or key is not None:
        raise SettingsError(
            "A TLS certificate needs its key: give tls_cert and tls_key, or neither for a self-signed certificate."
        )
    folder = data / "tls"
    file, key = folder / "certificate.pem", folder / "key.pem"
    if not _is_usable(file, set(names)):
        try:
            make_private_folder(folder)
            _make_certificate(file, key, sorted(set(names)))
        except OSError as error:
            raise SettingsError(f"A TLS certificate cannot be made in {folder}: {error.strerror or error}.") from error
    return Certificate(file, key)


def list_own_names(host: str, names: Iterable[str]) -> list[str]:
    """List the names by which clients may reach the server."""
    given = [host, *names, "localhost", "127.0.0.1", "::1", socket.gethostname()]
    return [name for name in dict.fromkeys(given) if name not in ("", "0.0.0.0", "::")]


def _is_usable(file: Path, names: set[str]) -> bool:
    """Return whether our certificate is there, has these names and does not expire soon."""
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(file.read_bytes())
        of = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return False
    there = {*of.get_values_for_type(x509.DNSName), *map(str, of.get_values_for_type(x509.IPAddress))}
    return names <= there and found.not_valid_after_utc - RENEW_DAYS > datetime.now(UTC)


def _make_certificate(file: Path, key: Path, names: list[str]) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Headwater")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + VALID_DAYS)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(private, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = private.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    for path, content in ((key, secret), (file, made.public_bytes(pem))):
        path.unlink(missing_ok=True)  # it may have another mode
        with open_private_file(path) as stream:
            stream.write(content)


def _general_name(name: str):  # type: ignore[no-untyped-def]  # one of two classes of a package imported late
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode() if not name.isascii() else name)


def _read_first_certificate(pem: str) -> str:
    end = "-----END CERTIFICATE-----"
    return pem[pem.index("-----BEGIN CERTIFICATE-----") : pem.index(end)] + end + "\n"


def _refuse_password() -> str:
    raise ValueError("it has a password")
