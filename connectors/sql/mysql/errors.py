"""What an error number of MySQL or MariaDB means for the pipeline.

Inside this package a statement that fails raises `ServerError`, which keeps the number. At the border of the package
`translated` turns it into one of `eos.errors`, by the class of the number. The text decides only where there is no
session: elsewhere it may quote a row.

Source: MySQL manual, "Server Error Message Reference"; MariaDB "Error Codes" (the two agree below 1900).
"""

from __future__ import annotations

from typing import Final

from connectors.aws import FIND
from connectors.sql.statements import StatementError
from eos.errors import (
    BadRowError,
    ConnectorError,
    PrepareError,
    RowLockedError,
    SinkError,
    SinkUnavailableError,
    TargetError,
)

ACCESS_DENIED_CREATE: Final = frozenset({1044, 1142, 1227})
DUPLICATE_KEY: Final = 1062
LOCK_WAIT_TIMEOUT: Final = 1205
PRIVILEGE_MISSING: Final = 1227
_NO_SUCH_TABLE: Final = 1146
_NO_DATABASE: Final = 1046
XA_FAILED: Final = 1401  # XAER_RMERR: the server could not do it now
DUPLICATE_XID: Final = 1440  # XAER_DUPID: there is a branch of this name
UNKNOWN_XID: Final = 1397  # XAER_NOTA: does not exist, is attached elsewhere, or was committed already
WRONG_XA_STATE: Final = 1399  # XAER_RMFAIL

# The connection is gone, or never came about; the session's open transaction was or will be rolled back by the server.
_CONNECTION: Final = frozenset({0, 1053, 1158, 1159, 1160, 1161, 1927, 2002, 2003, 2006, 2013, 2014, 2055, 3169, 4031})
_TLS: Final = 2026
NO_TOKEN: Final = 2998  # our own, of no server and no driver: a token that is the password cannot be made
_ASKS_PASSWORD: Final = 2061  # see connectors.sql.mysql.connection
_LOCKED: Final = frozenset({LOCK_WAIT_TIMEOUT, 1213})  # a deadlock is one, too
_BUSY: Final = frozenset(
    {
        1021,  # disk full
        1037,  # out of memory
        1040,  # too many connections
        1041,  # out of memory
        1114,  # table or disk full
        1129,  # host blocked after too many errors
        1135,  # no more threads
        1203,  # user has too many connections
        1206,  # lock table full
        1226,  # user's hourly resources used up
        1290,  # the server runs read-only
        1317,  # query interrupted
        XA_FAILED,
        1637,  # too many transactions
        1836,  # read-only, as after a fail-over
        3024,  # statement timeout
        3100,  # a replication plugin refused the commit
        3101,  # rolled back by group replication
        3572,  # NOWAIT
    }
)
_ROW: Final = frozenset(
    {
        1048,  # NULL in a NOT NULL column
        DUPLICATE_KEY,
        1169,  # unique constraint
        1216,  # foreign key, as MySQL says it to a user without rights on the other table
        1217,
        1263,  # NULL in a NOT NULL column, as LOAD DATA says it
        1264,  # out of range
        1265,  # data truncated
        1292,  # wrong date or number
        1300,  # invalid characters
        1301,  # JSON larger than max_allowed_packet
        1366,  # wrong value for the type
        1367,  # illegal value while parsing
        1369,  # CHECK OPTION of a view
        1406,  # too long
        1411,  # wrong value for a function
        1416,  # not a geometry
        1451,  # foreign key
        1452,  # foreign key
        1526,  # no partition for the value
        1586,  # duplicate key
        1644,  # SIGNAL of a trigger
        1690,  # out of range in an expression
        1748,  # not of this partition
        3140,  # invalid JSON
        3141,
        3144,
        3150,  # JSON: the value, or a key, is too large
        3151,
        3155,  # JSON: out of range, for a column that is generated from it
        3156,
        3157,
        3819,  # CHECK constraint
        3903,  # a functional index cannot take what it is made from
        3904,
        3905,
        3906,
        3907,
        4025,  # CHECK constraint (MariaDB)
        4038,  # invalid JSON (MariaDB)
    }
)
_TARGET: Final = frozenset(
    {
        1044,  # no rights on the database
        1045,  # wrong user or password
        1049,  # no such database
        1054,  # no such column
        1130,  # host not allowed
        1136,  # column count
        1142,  # no rights on the table
        1143,  # no rights on the column
        1146,  # no such table
        1148,  # LOCAL not allowed
        PRIVILEGE_MISSING,
        1251,  # authentication protocol
        1364,  # column without default
        1410,  # no rights
        1419,  # binary log and triggers
        1524,  # authentication plugin
        1665,  # binlog_format=STATEMENT cannot log READ COMMITTED
        1698,  # access denied
        1820,  # password expired
        1862,  # password expired
        _TLS,
        _ASKS_PASSWORD,
        2054,  # authentication
        2059,  # authentication
        3118,  # account locked
        3159,  # TLS required
        3948,  # LOCAL not allowed
    }
)
_NO_SESSION: Final = _CONNECTION | {_TLS}
_OF_SERVERS: Final = 1000  # lower ones are the system's, or of its TLS
"""Only below, and without a session, does the text decide anything: any other may quote a row."""
_LOGIN: Final = frozenset({1045, 1130, 1251, 1524, 1698, 1820, 1862, 2054, 2059, 3118, 3159})  # of _TARGET
_ROLLED_BACK: Final = frozenset({1402, 1613, 1614})  # XA_RBROLLBACK, XA_RBTIMEOUT, XA_RBDEADLOCK
_XA: Final = frozenset({1397, 1398, 1399, 1400, DUPLICATE_XID}) | _ROLLED_BACK


class ServerError(StatementError):
    """An error of a MySQL or MariaDB server."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(number, text)
        self.number = number
        self.text = text

    @property
    def disconnected(self) -> bool:
        """The connection is gone, so that the answer to what was sent last is not known."""
        return self.number in _CONNECTION

    @property
    def lock_wait(self) -> bool:
        return self.number == LOCK_WAIT_TIMEOUT

    @property
    def duplicate_key(self) -> bool:
        return self.number == DUPLICATE_KEY

    @property
    def in_doubt(self) -> bool:
        return self.number in (UNKNOWN_XID, WRONG_XA_STATE)

    @property
    def rolled_back(self) -> bool:
        return self.number in _ROLLED_BACK

    @property
    def missing_table(self) -> bool:
        return self.number == _NO_SUCH_TABLE

    @property
    def access_denied(self) -> bool:
        return self.number in ACCESS_DENIED_CREATE

    def connector_error(self, doing: str) -> ConnectorError:
        return connector_error(doing, self)


def of_driver(error: BaseException | None) -> ServerError:
    """What the driver has raised."""
    number, text = (*getattr(error, "args", ()), 0, "")[:2]
    if isinstance(number, int) and number:
        return ServerError(number, str(text))
    return ServerError(0, f"the connection is closed ({type(error).__name__})")


def is_row_fault(number: int) -> bool:
    """Whether the number, of an error or of a warning, speaks about a row's values."""
    return number in _ROW


def connector_error(doing: str, error: ServerError) -> ConnectorError:
    """The error that the rest of the framework understands; `doing` names the sink and what was tried."""
    if error.number == NO_TOKEN:
        return TargetError(f"{doing}: {error.text}", remedy=FIND)
    message = f"{doing}: {error.text} (error {error.number})"
    if (error.number in _NO_SESSION or error.number < _OF_SERVERS) and (remedy := _remedy_of_tls(error.text)):
        return TargetError(message, remedy=remedy)
    if error.number == _NO_DATABASE:
        return TargetError(f"{doing}: the url names no database", remedy="end the url with /<database>")
    if error.number in _LOCKED:
        return RowLockedError(message, remedy=_REMEDY_OF_LOCKS)
    if error.number in _CONNECTION or error.number in _BUSY:
        return SinkUnavailableError(message, remedy=_REMEDY_OF_WAITING)
    if error.number in _ROW:
        return BadRowError(message, remedy="correct the row in a transform, or widen the column")
    if error.number == _ASKS_PASSWORD:
        return TargetError(message, remedy=_REMEDY_OF_PASSWORDS)
    if error.number in _LOGIN:
        return TargetError(message, remedy="correct user name and password in the url, and what the user must show")
    if error.number in _TARGET:
        return TargetError(message, remedy=_REMEDY_OF_RIGHTS)
    if error.number in _XA:
        return PrepareError(message, remedy="the checkpoint is aborted and run again")
    return SinkError(message, remedy="look the number up in the server's manual; `eos doctor` checks the rest")


def _remedy_of_tls(text: str) -> str:
    """What to do where one of the two does not like the other's certificate; empty: that is not it."""
    if "CERTIFICATE_VERIFY_FAILED" in text:
        if "expired" in text:
            return "have the server's certificate renewed, and see that this machine's clock is right"
        if "mismatch" in text:
            return "name the server in the url as its certificate does, or have one made for that name"
        return "give the authority of the server's certificate as ssl_ca in the url (docs/how-to/security.md)"
    if "SSL is required but" in text:
        return "switch TLS on at the server: towards another machine it is wanted, unless the url says ssl_disabled"
    return "the server does not take this client's certificate: see ssl_cert and ssl_key" if "ALERT" in text else ""


_REMEDY_OF_LOCKS: Final = (
    "it is tried again; if that does not help, another program holds the row or its key: SHOW PROCESSLIST lists"
    " whose connections are open, XA RECOVER what was prepared and never ended"
)
_REMEDY_OF_PASSWORDS: Final = (
    "see that no other process has taken the server's port; then have the server prove who it is: ssl_ca in the url, or"
    " server_public_key for caching_sha2_password and sha256_password (docs/how-to/security.md)"
)
_REMEDY_OF_RIGHTS: Final = (
    "grant the user the right that the server names, or correct `table`; `eos doctor` lists rights and columns"
)
_REMEDY_OF_WAITING: Final = "see that the server is up and reachable; the pipeline goes on when it answers"
