"""MySQL's protocol as a server speaks it: text results, and the request for a local file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from connectors.sql.mysql.engine import Session
from tests.played.script import (
    Answer,
    Asks,
    Changed,
    Conversation,
    Cut,
    Named,
    Refused,
    Rows,
    Script,
    Silent,
    listening,
)

MARIADB: Final = "5.5.5-10.11.6-MariaDB"
MYSQL: Final = "9.7.0"

RESET: Final = "COM_RESET_CONNECTION"
"""In a script, the command that has no statement."""

_NO_TLS: Final = 0x00FFFFFF & ~0x00000800 & ~0x00000020  # every capability of the first 24, but for TLS and compression
_AUTOCOMMIT: Final = 2
_LONGLONG, _BLOB, _TEXT = 8, 252, 253
_UTF8MB4, _BINARY = 45, 63
_QUIT, _QUERY, _PING, _SET_OPTION, _RESET = 1, 3, 14, 27, 31
_MORE: Final = 8  # results follow


@contextmanager
def mysql(greeting: str = MARIADB) -> Iterator[tuple[str, Script]]:
    """A URL, and the script of the server that listens there. `greeting`: the version that the server names."""
    script = Script()
    # The questions of SQLAlchemy and of a session about itself.
    script.on(r"SELECT VERSION\(\)", [(greeting.removeprefix("5.5.5-"),)])
    script.on("SELECT DATABASE", [("played",)])
    script.on("SELECT @@(transaction|tx)_isolation", [("READ-COMMITTED",)])
    script.on("SHOW VARIABLES LIKE 'sql_mode'|SELECT @@sql_mode", [("sql_mode", "")])
    script.on("SHOW VARIABLES LIKE 'lower_case_table_names'", [("lower_case_table_names", "0")])
    script.on("SELECT @@lower_case_table_names", [("0",)])
    script.on("SELECT @@local_infile", [(1, 64 * 1024 * 1024)])
    script.on("GET_LOCK", [(1,)])
    script.on("SELECT CURRENT_USER", [("u@127.0.0.1",)])
    speaker = type("_Greeting", (_MySql,), {"greeting": greeting})
    with listening(speaker, script) as server:
        url = f"mysql+pymysql://u:p@127.0.0.1:{server.port}/played"
        Session(url).close()  # SQLAlchemy has questions of its own on the first connection to a URL
        script.forget()
        yield url, script


class _MySql(Conversation):
    greeting = MARIADB
    _sequence = -1  # number of the packet before; the greeting has number 0

    def speak(self, script: Script, number: int) -> None:
        self._greet(number)
        self._read()
        self._write(_done(Changed()))
        several = False
        while True:
            packet = self._read()
            if packet[0] == _QUIT:
                return
            if packet[0] == _PING:
                self._write(_done(Changed()))
                continue
            if packet[0] == _SET_OPTION:
                several = packet[1:] == b"\0\0"
                script.options += 1
                self._write(_END)
                continue
            assert packet[0] in (_QUERY, _RESET), packet
            text = RESET if packet[0] == _RESET else packet[1:].decode(errors="surrogateescape")
            statements = text.split(";") if several else [text]
            while statements:
                statement = statements.pop(0)
                answer = script.answer(number, statement)
                if statement.startswith("LOAD DATA LOCAL"):
                    script.files.append(self._file())
                if isinstance(answer, Cut):
                    return
                if isinstance(answer, Asks):
                    script.files.append(self._file(answer.path))
                    answer = Changed()
                if isinstance(answer, Refused):
                    statements.clear()
                self._answer(answer, more=bool(statements))

    def _greet(self, number: int) -> None:
        low, high = _NO_TLS & 0xFFFF, _NO_TLS >> 16
        head = b"\x0a" + self.greeting.encode() + b"\0" + struct.pack("<I", number) + b"12345678\0"
        behind = struct.pack("<HBHHB", low, _UTF8MB4, _AUTOCOMMIT, high, 21) + bytes(10)
        self._write(head + behind + b"123456789012\0" + b"mysql_native_password\0")

    def _answer(self, answer: Answer, *, more: bool) -> None:
        match answer:
            case Changed():
                self._write(_done(answer, _MORE if more else 0))
            case Refused(code, text):
                self._write(b"\xff" + struct.pack("<H", int(code)) + b"#HY000" + text.encode())
            case Cut() | Silent() | Named() | Asks():
                raise AssertionError(answer)
            case rows:
                self._rows(rows)

    def _rows(self, rows: Rows) -> None:
        width = len(rows[0]) if rows else 1
        self._write(_length(width))
        for at in range(width):
            self._write(_column(next((row[at] for row in rows if row[at] is not None), None)))
        self._write(_END)
        for row in rows:
            self._write(b"".join(b"\xfb" if value is None else _text(_bytes(value)) for value in row))
        self._write(_END)

    def _file(self, path: str = "rows") -> bytes:
        self._write(b"\xfb" + path.encode())
        parts = []
        while part := self._read():
            parts.append(part)
        return b"".join(parts)

    def _read(self) -> bytes:
        size, self._sequence = struct.unpack("<I", self.exactly(3) + b"\0")[0], self.exactly(1)[0]
        return self.exactly(size)

    def _write(self, packet: bytes) -> None:
        self._sequence = (self._sequence + 1) % 256
        self.wfile.write(struct.pack("<I", len(packet))[:3] + bytes([self._sequence]) + packet)


_END: Final = b"\xfe" + struct.pack("<HH", 0, _AUTOCOMMIT)


def _done(changed: Changed, status: int = 0) -> bytes:
    return b"\0" + _length(changed.rows) + b"\0" + struct.pack("<HH", _AUTOCOMMIT | status, changed.warnings)


def _column(value: Any) -> bytes:
    kind, charset = (_LONGLONG, _BINARY) if isinstance(value, int) else (_TEXT, _UTF8MB4)
    if isinstance(value, bytes):
        kind, charset = _BLOB, _BINARY
    names = b"".join(_text(each) for each in (b"def", b"", b"", b"", b"c", b"c"))
    return names + b"\x0c" + struct.pack("<HIBHB", charset, 1 << 20, kind, 0, 0) + b"\0\0"


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _text(value: bytes) -> bytes:
    return _length(len(value)) + value


def _length(number: int) -> bytes:
    if number < 251:
        return bytes([number])
    return b"\xfc" + struct.pack("<H", number) if number < 1 << 16 else b"\xfe" + struct.pack("<Q", number)
