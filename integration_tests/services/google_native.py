"""Google Cloud Storage as a process of this machine: fake-gcs-server behind a translation of the XML API.

`go/google_store.go` says what is translated. A request needs a token that the service account of this server signed.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from integration_tests.services.go_programs import GoProgram
from integration_tests.services.processes import ServerProcess
from integration_tests.services.single import PortServer
from integration_tests.services.state import data_folder

PROGRAM: Final = GoProgram(
    "google-store",
    "github.com/fsouza/fake-gcs-server",
    "v1.56.1",
    source=Path(__file__).parent / "go" / "google_store.go",
)


class GoogleStore(PortServer):
    """A PortServer that keeps everything in memory."""

    kind = "google"
    wanted_port = 15560

    @property
    def service_account_key(self) -> str:
        """The service account whose tokens it takes, as the JSON document that Google's console returns."""
        return (data_folder() / self.kind / "account.json").read_text()

    def _start(self) -> ServerProcess:
        program, folder, key = PROGRAM.obtain(self._log), data_folder() / self.kind, new_key()
        folder.mkdir(mode=0o700)
        (folder / "account.json").write_text(service_account(key))
        public = key.public_key()
        text = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        (folder / "public.pem").write_bytes(text)
        return ServerProcess.start([str(program), str(self.port), str(folder / "public.pem")], self._log)

    def _clear(self) -> None:
        shutil.rmtree(data_folder() / self.kind, ignore_errors=True)


def new_key() -> rsa.RSAPrivateKey:
    """Return a key of a service account."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def service_account(key: rsa.RSAPrivateKey) -> str:
    """Return the JSON document of a service account with this key."""
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    names = {"client_email": "driver@tests.iam.gserviceaccount.com", "private_key_id": "1", "private_key": text}
    return json.dumps({"type": "service_account", **names})
