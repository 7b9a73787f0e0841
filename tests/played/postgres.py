"""PostgreSQL's protocol as a server speaks it: simple and extended queries in text, and COPY into the server."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from connectors.sql.postgres.engine import Session
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

_SSL, _GSS = 80877103, 80877104
_BOOL, _BYTES, _INT8, _TEXT, _TEXTS, _MOMENT = 16, 17, 20, 25, 1009, 1184
_BEGAN: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_PARAMETERS: Final = {
    "server_version": "16.4",
    "client_encoding": "UTF8",
    "server_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "integer_datetimes": "on",
    "DateStyle": "ISO, YMD",
    "TimeZone": "Asia/Kathmandu",
}


@contextmanager
def postgres() -> Iterator[tuple[str, Script]]:
    """A URL, and the script of the server that listens there."""
    script = Script()
    # The questions of SQLAlchemy and of a session about itself.
    script.on(r"version\(\)", [("PostgreSQL 16.4 on x86_64",)])
    script.on("current_schema", [("public",)])
    script.on("show standard_conforming_strings", [("on",)])
    script.on("show transaction isolation level", [("read committed",)])
    script.on("pg_postmaster_start_time", [("on", 4711, _BEGAN, "60s")])
    script.on("LEFT JOIN pg_stat_activity", [])
    script.on("set_config.*pg_postmaster_start_time", [("on", 4711, _BEGAN)])
    with listening(_Postgres, script) as server:
        url = f"postgresql+psycopg://u:p@127.0.0.1:{server.port}/played?sslmode=disable"
        Session(url).close()  # SQLAlchemy has questions of its own on the first connection to a URL
        script.forget()
        yield url, script


class _Postgres(Conversation):
    _state = b"I"

    def speak(self, script: Script, number: int) -> None:
        self._greet(number)
        parsed, failed = "", False
        answer: Answer = Changed()
        while True:
            kind, body = self.exactly(1), self._body()
            if kind == b"X":
                return
            if kind == b"S":
                failed = False
                self._ready()
            elif kind == b"Q":
                statement = _string(body)
                answer = script.answer(number, statement)
                if statement.lstrip().upper().startswith("COPY"):
                    self._copy(script)
                if isinstance(answer, Silent):
                    self.left_alone()
                if isinstance(answer, Cut | Silent):
                    return
                self._answer(statement, answer, described=False)
                self._ready()
            elif failed:
                continue
            elif kind == b"P":
                parsed = _string(body[body.index(b"\0") + 1 :])
                answer = script.answer(number, parsed)
                if isinstance(answer, Cut):
                    return
                self._send(b"1")
            elif kind == b"B":
                self._send(b"2")
            elif kind == b"D":
                self._describe(answer)
            elif kind == b"E":
                failed = isinstance(answer, Refused)
                self._answer(parsed, answer, described=True)

    def _greet(self, number: int) -> None:
        while struct.unpack(">I", (first := self._body())[:4])[0] in (_SSL, _GSS):
            self.wfile.write(b"N")
        assert first[:4] == struct.pack(">I", 3 << 16), first
        self._send(b"R", struct.pack(">I", 0))
        for name, value in _PARAMETERS.items():
            self._send(b"S", f"{name}\0{value}\0".encode())
        self._send(b"K", struct.pack(">II", number, 0))
        self._ready()

    def _answer(self, statement: str, answer: Answer, *, described: bool) -> None:
        verb = statement.split(maxsplit=1)[0].upper() if statement.strip() else ""
        match answer:
            case Refused(code, text):
                self._state = b"E" if self._state != b"I" else b"I"
                fields = f"SERROR\0VERROR\0C{code}\0M{text}\0\0"
                self._send(b"E", fields.encode())
                return
            case Changed(rows):
                tag = f"{verb} {rows}" if verb in ("COPY", "SELECT", "DELETE", "UPDATE") else verb
                tag = f"INSERT 0 {rows}" if verb == "INSERT" else tag
            case Named(tag):
                pass
            case Cut() | Silent() | Asks():
                raise AssertionError(answer)
            case rows:
                if not described:
                    self._describe(rows)
                for row in rows:
                    self._send(b"D", struct.pack(">H", len(row)) + b"".join(map(_value, row)))
                tag = f"SELECT {len(rows)}"
        self._state = b"T" if verb == "BEGIN" else b"I" if verb in ("COMMIT", "ROLLBACK", "PREPARE") else self._state
        self._send(b"C", f"{tag}\0".encode())

    def _describe(self, answer: Answer) -> None:
        if isinstance(answer, Changed | Refused | Named | Cut | Silent | Asks):
            self._send(b"n")
            return
        rows: Rows = answer
        width = len(rows[0]) if rows else 1
        columns = b"".join(
            b"c\0" + struct.pack(">IhIhih", 0, 0, _kind([row[at] for row in rows]), -1, -1, 0) for at in range(width)
        )
        self._send(b"T", struct.pack(">H", width) + columns)

    def _copy(self, script: Script) -> None:
        self._send(b"G", b"\0\0\0")
        parts = []
        while (kind := self.exactly(1)) == b"d":
            parts.append(self._body())
        assert kind == b"c", kind
        self._body()
        script.files.append(b"".join(parts))

    def _body(self) -> bytes:
        return self.exactly(int(struct.unpack(">I", self.exactly(4))[0]) - 4)

    def _ready(self) -> None:
        self._send(b"Z", self._state)

    def _send(self, kind: bytes, body: bytes = b"") -> None:
        self.wfile.write(kind + struct.pack(">I", len(body) + 4) + body)


def _string(body: bytes) -> str:
    return body[: body.index(b"\0")].decode()


def _kind(values: list[Any]) -> int:
    """The type of a column, by its first value."""
    match next((value for value in values if value is not None), None):
        case bool():
            return _BOOL
        case int():
            return _INT8
        case bytes():
            return _BYTES
        case list():
            return _TEXTS
        case dt.datetime():
            return _MOMENT
    return _TEXT


def _value(value: Any) -> bytes:
    match value:
        case None:
            return struct.pack(">i", -1)
        case bool():
            text = "t" if value else "f"
        case bytes():
            text = "\\x" + value.hex()
        case list():
            text = "{" + ",".join(value) + "}"
        case _:
            text = str(value)
    return struct.pack(">I", len(text.encode())) + text.encode()
