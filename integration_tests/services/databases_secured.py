"""MariaDB and PostgreSQL with TLS, as processes of this machine: started by the first test that asks for them.

Their certificates are for 127.0.0.1 and for no other name of this machine, so that `localhost` is a wrong host name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from integration_tests.services import mariadb_native, postgres_native
from integration_tests.services.certificates import Authority
from integration_tests.services.mariadb_native import MariadbNative
from integration_tests.services.postgres_native import Postgres
from integration_tests.services.processes import ServerProcess
from integration_tests.services.readiness import await_database
from integration_tests.services.single import SingleServer
from integration_tests.services.state import data_folder, free_port, tail

CLIENT: Final = "secured"
"""Common name of the client's certificate."""

_MORE: Final = ("--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M")


class Certificates:
    """Files in a folder that a server's user can read: its own, another authority, and a client's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = folder / "authority.pem"
        self.foreign_ca = folder / "foreign.pem"
        self.certificate, self.key = folder / "server.crt", folder / "server.key"
        self.client, self.client_key = folder / f"{CLIENT}.crt", folder / f"{CLIENT}.key"

    def make(self, owner: str | None) -> None:
        """`owner`: of the server's key; None: this user."""
        authority = Authority(self.folder, "authority")
        Authority(self.folder, "foreign")
        for expired in (True, False):
            pair = authority.sign("server", "127.0.0.1", expired=expired, mode=0o600)
            if owner is not None:
                shutil.chown(pair.key, owner)
        authority.sign(CLIENT, mode=0o600)
        for name in ("server.crt", "server.key"):
            shutil.copy2(self.folder / name, self.folder / f"valid-{name}")
        self.folder.chmod(0o755)

    def use(self, *, expired: bool) -> None:
        """Put the expired certificate, or the valid one, in the server's place. It still has to be told."""
        for end in ("crt", "key"):
            other = self.folder / (f"server-expired.{end}" if expired else f"valid-server.{end}")
            with (self.folder / f"server.{end}").open("wb") as file:  # the file stays its owner's
                file.write(other.read_bytes())


class SecuredMariadb(SingleServer):
    """See SingleServer."""

    kind = "mariadb-secured"

    def __init__(self) -> None:
        super().__init__()
        self.certificates = Certificates(self._data / "certificates")

    def url(self, *, admin: bool = False, host: str = "127.0.0.1") -> str:
        """SQLAlchemy's form, with a user's rights or with all, without a database."""
        native = self._native()
        return (native.admin_url if admin else native.url).replace("127.0.0.1", host)

    def _start(self) -> ServerProcess:
        self._data.mkdir(mode=0o711)
        self.certificates.make(mariadb_native.server_user() if os.getuid() == 0 else None)
        return self._native().start()

    def _await(self) -> None:
        await_database(self.url(admin=True), lambda: None if self.running() else tail(self._native().log))

    def _clear(self) -> None:
        shutil.rmtree(self._data, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return data_folder() / self.kind

    def _native(self) -> MariadbNative:
        state = self._state.load()
        if "port" not in state:
            state["port"] = free_port(int(os.environ.get("EOS_NATIVE_SECURED_MARIADB_PORT", "13317")))
            self._state.save(state)
        files = self.certificates
        tls = (f"--ssl-ca={files.ca}", f"--ssl-cert={files.certificate}", f"--ssl-key={files.key}")
        return MariadbNative(self._state, self._data, state["port"], (*_MORE, *tls))


class SecuredPostgres(Postgres):
    """See Postgres. A user named as CLIENT logs in by its certificate alone."""

    kind = "postgres-secured"
    wanted_port = "15443"

    def __init__(self) -> None:
        super().__init__()
        self.certificates = Certificates(data_folder() / "postgres-certificates")

    @property
    def settings(self) -> Sequence[str]:
        """See Postgres."""
        files = self.certificates
        tls = (f"ssl_ca_file={files.ca}", f"ssl_cert_file={files.certificate}", f"ssl_key_file={files.key}")
        return (*super().settings, "ssl=on", "shared_buffers=16MB", *tls)

    def prepare(self) -> None:
        """See Postgres."""
        self.certificates.make(postgres_native.server_user() if os.getuid() == 0 else None)
        rules = self.data / "pg_hba.conf"
        by_certificate = f"hostssl all {CLIENT} all cert\n"
        if not rules.read_text().startswith(by_certificate):
            rules.write_text(by_certificate + rules.read_text())
