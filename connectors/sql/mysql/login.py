"""A PyMySQL connection that tells its password only to a server that has proved who it is.

The server chooses how a client logs in, and PyMySQL does whatever it is asked. A process that has taken the port of a
server that is down could ask for the password itself, or for the password encrypted for a key of its own. Against a
scramble of the password it can only guess.
"""

from __future__ import annotations

import ssl
from typing import Any, Final

from pymysql import err
from pymysql.connections import Connection
from pymysql.constants import CR

_CLEAR: Final = frozenset({b"mysql_clear_password", b"dialog"})
"""Plugins that send the password as it is. PAM and LDAP need one of them."""

_BROKEN: Final = b"mysql_old_password"  # its scramble gives the password away

ASKS_PASSWORD: Final[int] = CR.CR_AUTH_PLUGIN_ERR
"""The number of the error where a server asks for a login that is refused here."""


class GuardedConnection(Connection):
    """A connection whose server learns the password only where its certificate, or its RSA key, is known.

    What remains: where TLS is on and the URL asks for no verified certificate, `caching_sha2_password` and
    `sha256_password` send the password through TLS. MySQL's own clients do the same.
    """

    _sock: Any
    _pinned: bytes | None = None

    @property
    def server_public_key(self) -> bytes | None:
        """The RSA key for which a password is encrypted where there is no TLS: the URL's, and never the server's."""
        return self._pinned

    @server_public_key.setter
    def server_public_key(self, key: bytes | None) -> None:
        if self._sock is None:  # the URL's, before anything is connected
            self._pinned = key
        elif self._pinned is None:
            raise _refused("the server asks for the password, encrypted for a key that it has just sent")

    def _process_auth(self, plugin: bytes, packet: Any, handler: Any = None) -> Any:
        """As in PyMySQL, but for the plugins that give the password away. Raises OperationalError."""
        if plugin in _CLEAR and not self._is_verified:
            raise _refused(f"the server asks for the password in clear text ({plugin.decode()})")
        if plugin == _BROKEN:
            raise _refused("the server asks for the password in a form that is broken (mysql_old_password)")
        try:
            return super()._process_auth(plugin, packet, handler)  # type: ignore[misc]
        except RuntimeError as error:  # a plugin needs a package that is missing
            raise err.OperationalError(CR.CR_AUTH_PLUGIN_CANNOT_LOAD, str(error)) from None

    @property
    def _is_verified(self) -> bool:
        """Whether the server's certificate was verified."""
        return isinstance(self._sock, ssl.SSLSocket) and self._sock.context.verify_mode is ssl.CERT_REQUIRED


def _refused(text: str) -> err.OperationalError:
    return err.OperationalError(ASKS_PASSWORD, f"{text}, and has not proved who it is")
